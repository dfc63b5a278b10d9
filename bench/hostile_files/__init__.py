"""The hostile workers of the bench, their pages, and what they are asked."""

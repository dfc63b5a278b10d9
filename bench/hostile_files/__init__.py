"""The hostile workers of the bench, their pages, and their inputs."""

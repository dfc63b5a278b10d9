// No JavaScript.
export const handler = (;

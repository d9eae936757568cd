/**
 * Replacement of `undici` in the bundle. platform-node imports it for a second HTTP client that this program does not
 * use, and loading it takes a fifth of every command's start. Any use throws a clear error.
 */
export default {}

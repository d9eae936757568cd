/**
 * In the place of `undici` in the bundle: platform-node imports it for a second HTTP client that nothing here uses, and
 * loading it is a fifth of the start of every command. Whoever asks it for something gets a clear error.
 */
export default {}

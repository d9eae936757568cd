/** Days in milliseconds. */
export const days = (n: number): number => n * 86_400_000

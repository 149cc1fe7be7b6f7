/** What a command has found out, on standard output. */

/** Resolves when all of it has been taken: the process ends then, and whoever reads a pipe would have the first 64 kB alone. */
export function say(text: string): Promise<void> {
  return new Promise((resolve) => {
    process.stdout.write(text, () => resolve())
  })
}

/** What a command has found out, on standard output. */

/**
 * Resolves when all of it has been taken: the process ends then, and whoever reads a pipe would have the first 64 kB alone. Also when nobody
 * reads any more, as behind `| head`.
 */
export function say(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') resolve()
      else reject(error)
    })
    process.stdout.write(text, () => resolve())
  })
}

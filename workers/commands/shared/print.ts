/** Prints a command's result to standard output. */

/**
 * Resolves when standard output has taken all of the text; after an earlier exit a pipe has only
 * the first 64 kB. A closed pipe, as behind `| head`, resolves it too.
 */
export function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') resolve()
      else reject(error)
    })
    process.stdout.write(text, () => resolve())
  })
}

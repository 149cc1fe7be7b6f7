/** Waiting that ends: whoever is asked may take as long as it likes. */

/** What the work comes to; undefined: the signal was aborted before. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const leave = () => resolve(undefined)
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave))
  })
}

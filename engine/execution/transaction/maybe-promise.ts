/**
 * Combines steps that wait only if the engine does. The fast engine returns results at once, the
 * reference engine promises.
 */

export type MaybePromise<T> = T | Promise<T>

export function andThen<A, B>(
  value: MaybePromise<A>,
  next: (value: A) => MaybePromise<B>,
): MaybePromise<B> {
  return value instanceof Promise ? value.then(next) : next(value)
}

/** Runs `end` after `run`, also after an error. */
export function andFinally<T>(run: () => MaybePromise<T>, end: () => void): MaybePromise<T> {
  let isPending = false
  try {
    const value = run()
    isPending = value instanceof Promise
    return value instanceof Promise ? value.finally(end) : value
  } finally {
    if (!isPending) end()
  }
}

/** Runs `undo` if `run` throws or rejects, and passes the error on. */
export function orUndo<T>(run: () => MaybePromise<T>, undo: () => void): MaybePromise<T> {
  const fail = (error: unknown): never => {
    undo()
    throw error
  }
  try {
    const value = run()
    return value instanceof Promise ? value.catch(fail) : value
  } catch (error) {
    return fail(error)
  }
}

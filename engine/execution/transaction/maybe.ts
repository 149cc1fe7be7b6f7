/** Steps that wait only where the engine makes them: the fast engine answers at once, the reference engine by a promise. */

export type Maybe<T> = T | Promise<T>

export function andThen<A, B>(value: Maybe<A>, next: (value: A) => Maybe<B>): Maybe<B> {
  return value instanceof Promise ? value.then(next) : next(value)
}

/** Runs `end` after `run`, however that ends. */
export function andFinally<T>(run: () => Maybe<T>, end: () => void): Maybe<T> {
  let isPending = false
  try {
    const value = run()
    isPending = value instanceof Promise
    return value instanceof Promise ? value.finally(end) : value
  } finally {
    if (!isPending) end()
  }
}

/** Runs `undo` when `run` throws, now or later, and lets the error pass. */
export function orUndo<T>(run: () => Maybe<T>, undo: () => void): Maybe<T> {
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

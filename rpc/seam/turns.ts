/** Lets actions of the same key run one after the other. */
export type Turns = <T>(key: string, action: () => Promise<T>) => Promise<T>

export function createTurns(): Turns {
  const tails = new Map<string, Promise<unknown>>()
  return (key, action) => {
    const before = tails.get(key)
    // The one before may fail: that is its own caller's matter.
    const turn = before === undefined ? action() : before.then(action, action)
    const tail = turn.then(
      () => undefined,
      () => undefined,
    )
    tails.set(key, tail)
    void tail.then(() => {
      if (tails.get(key) === tail) tails.delete(key)
    })
    return turn
  }
}

/** Runs actions with the same key one after the other. */
export type Turns = <T>(key: string, action: () => Promise<T>) => Promise<T>

export function createTurns(): Turns {
  const tails = new Map<string, Promise<unknown>>()
  return (key, action) => {
    const before = tails.get(key)
    // The previous action may fail; only its own caller sees that error.
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

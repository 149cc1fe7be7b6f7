/** Reason why something looks wrong, in two forms. */
export type Suspicion = {
  /** Text for the operator, with addresses and paths of the nodes that are followed. */
  readonly text: string
  /** Text for the public, without addresses and paths. */
  readonly outside: string
}

/** Makes a suspicion whose text is fit for the public. */
export const openSuspicion = (text: string): Suspicion => ({ text, outside: text })

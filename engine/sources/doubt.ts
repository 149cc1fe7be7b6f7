/** Why something is not as it should be, in two forms. */
export type Doubt = {
  /** For the operator: with names of what this node follows, addresses and paths. */
  readonly text: string
  /** As anybody may read it, without those. */
  readonly outside: string
}

/** What names nobody. */
export const openDoubt = (text: string): Doubt => ({ text, outside: text })

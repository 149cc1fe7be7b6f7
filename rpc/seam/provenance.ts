/** Hears, while a body is answered and in its own course, what its answer was made of: for whoever asks again at the same place. */
export type Provenance = {
  /**
   * The record of the views that was read, before the answer is there; undefined: none, or the newest at this moment. More than once where items of a
   * batch have views of their own.
   */
  readonly read: (record: number | undefined) => void
  /** Another node has answered some of it. */
  readonly elsewhere: () => void
}

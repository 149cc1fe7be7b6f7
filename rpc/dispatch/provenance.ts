/**
 * Records the sources of a body's response in its request context. A replay of a recording can then
 * read the same views.
 */
export type Provenance = {
  /**
   * Called before the response with the snapshot of the view that was read. undefined: no view, or
   * the newest one now. Items of a batch with views of their own cause several calls.
   */
  readonly read: (snapshot: number | undefined) => void
  /** Called when another node has answered a part of the body. */
  readonly elsewhere: () => void
}

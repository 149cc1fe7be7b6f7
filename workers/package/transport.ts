/** What a started node is to `createNode`, in the process or beside it. */
export type EndpointName = 'standard' | 'flashblocks'

export type Started = {
  /** Of its port; empty: it has none. */
  readonly url: string
  /** JSON-RPC as text, answered as text. @throws {Error} the node has ended */
  ask(endpoint: EndpointName, body: string): Promise<string>
  close(): Promise<void>
}

/** Notifications of an endpoint, as text. */
export type Tell = (endpoint: EndpointName, text: string) => void

export type StartOptions = {
  /** Flags of `dev`. */
  readonly argv: readonly string[]
  readonly hasPort: boolean
  readonly tell: Tell
}

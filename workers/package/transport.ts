/** Interface between `createNode` and a started node, in the same process or a child. */
export type EndpointName = 'standard' | 'flashblocks'

export type Started = {
  /** URL of the node's port; empty if it has none. */
  readonly url: string
  /**
   * Sends JSON-RPC as text and returns the response as text.
   * @throws {Error} if the node has ended
   */
  request(endpoint: EndpointName, body: string): Promise<string>
  close(): Promise<void>
}

/** Receives notifications of an endpoint as text. */
export type OnMessage = (endpoint: EndpointName, text: string) => void

export type StartOptions = {
  readonly argv: readonly string[]
  readonly hasPort: boolean
  readonly onMessage: OnMessage
}

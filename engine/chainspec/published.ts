/** What the known chains publish for those who follow them. */

export type Published = {
  /** WebSocket URLs of the flashblocks feed: one source, several doors. */
  readonly feeds: readonly string[]
  /** JSON-RPC over HTTP. */
  readonly upstreams: readonly string[]
}

/** By name of the chain; one that is not listed publishes nothing. */
export const PUBLISHED: ReadonlyMap<string, Published> = new Map([
  [
    'xlayer',
    {
      feeds: ['wss://ws.xlayer.tech/flashblocks', 'wss://xlayerws.okx.com/flashblocks'],
      upstreams: ['https://rpc.xlayer.tech', 'https://xlayerrpc.okx.com'],
    },
  ],
  [
    'xlayer-testnet',
    {
      feeds: ['wss://testws.xlayer.tech/flashblocks', 'wss://xlayertestws.okx.com/flashblocks'],
      upstreams: ['https://testrpc.xlayer.tech/terigon'],
    },
  ],
])

/** Public feeds and upstreams of the known networks. */

export type Published = {
  /** WebSocket URLs of the flashblocks feed: one source, several URLs. */
  readonly feeds: readonly string[]
  readonly upstreams: readonly string[]
}

/** Entries by name of the network; one that is not listed has nothing public. */
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
  // Upstreams are those of ethereum-optimism/superchain-registry; feeds are the known public ones.
  [
    'unichain',
    {
      feeds: ['wss://mainnet-flashblocks.unichain.org/ws'],
      upstreams: ['https://mainnet.unichain.org'],
    },
  ],
  [
    'unichain-sepolia',
    {
      feeds: ['wss://sepolia-flashblocks.unichain.org/ws'],
      upstreams: ['https://sepolia.unichain.org'],
    },
  ],
  ['ink', { feeds: [], upstreams: ['https://rpc-gel.inkonchain.com'] }],
  ['ink-sepolia', { feeds: [], upstreams: ['https://rpc-gel-sepolia.inkonchain.com'] }],
  ['soneium', { feeds: [], upstreams: ['https://rpc.soneium.org'] }],
  ['soneium-minato', { feeds: [], upstreams: ['https://rpc.minato.soneium.org'] }],
  ['zora', { feeds: [], upstreams: ['https://rpc.zora.energy'] }],
  ['zora-sepolia', { feeds: [], upstreams: ['https://sepolia.rpc.zora.energy'] }],
  ['mode', { feeds: [], upstreams: ['https://mainnet.mode.network'] }],
  ['mode-sepolia', { feeds: [], upstreams: ['https://sepolia.mode.network'] }],
  ['worldchain', { feeds: [], upstreams: ['https://worldchain-mainnet.g.alchemy.com/public'] }],
  [
    'worldchain-sepolia',
    { feeds: [], upstreams: ['https://worldchain-sepolia.g.alchemy.com/public'] },
  ],
])

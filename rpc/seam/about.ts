/**
 * What an answer is about: the parameter `at`, which is a block (number, tag or hash), one whose state is read, the hash of one or of a
 * transaction, a transaction whose receipt is asked for, a log query, or a filter that is polled. Where it may be answered and what it waits
 * for is derived from that: rpc/legacy/route.ts, rpc/events/hold.ts, rpc/events/shown.ts, rpc/method/basis.ts.
 */
export type About = {
  readonly is: 'block' | 'state' | 'blockHash' | 'transaction' | 'receipt' | 'query' | 'filter'
  readonly at: number
  /** This node alone answers, and at once: nothing is waited for, and no other node is asked but the upstream of this very chain. */
  readonly isHereOnly?: true
  /** A read of latest does not wait for the block of a receipt that was shown. */
  readonly isAtOnce?: true
  /** It takes the trie of its block, which a node that fetches state does not have. */
  readonly needsTrie?: true
  /** The block where the parameter is left out; undefined: latest. */
  readonly whenLeftOut?: 'latest' | 'pending'
  /** Name of the method at other nodes, where that is another one. */
  readonly elsewhere?: string
}

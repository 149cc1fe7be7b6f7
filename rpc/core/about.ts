/**
 * The subject of a request: a block, state, hash, transaction, receipt, log query or filter.
 * Routing and waiting follow from the subject: see rpc/forwarding/route.ts,
 * rpc/events/receipt-hold.ts, rpc/events/seen-receipts.ts and rpc/method/basis.ts. The parameter
 * with index `at` names the subject.
 */
export type About = {
  readonly is: 'block' | 'state' | 'blockHash' | 'transaction' | 'receipt' | 'query' | 'filter'
  readonly at: number
  /**
   * This node alone responds, without waiting. The only exception is the upstream of this chain.
   */
  readonly isLocalOnly?: true
  /** A read of latest does not wait for the block of a preconfirmed receipt. */
  readonly isAtOnce?: true
  /** The method needs the trie of its block. A node that fetches state lazily has no trie. */
  readonly needsTrie?: true
  /** Block used when the parameter is left out (default: latest). */
  readonly whenLeftOut?: 'latest' | 'pending'
  /** Name of the method at other nodes, if different. */
  readonly elsewhere?: string
}

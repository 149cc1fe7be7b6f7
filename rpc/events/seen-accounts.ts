/**
 * Accounts in receipts above `latest` that clients have seen. Each account has the newest block of
 * such a receipt.
 */
import type { Limits } from '../core/limits.ts'

export interface SeenAccounts {
  /**
   * Records accounts within the limits. A client at its limit loses its oldest accounts.
   * @param addresses hex digits of each address, without 0x
   */
  record(client: string, height: bigint, addresses: ReadonlySet<string>): void
  /** Returns the newest block of the client's receipts. undefined: no receipt. */
  height(client: string): bigint | undefined
  /**
   * Returns the newest block of an account that the text names. 0: the text names no recorded
   * account.
   * @param text lower-case text
   */
  named(client: string, text: string): bigint
  /** Forgets clients with no receipt above this canonical height. */
  forget(canonical: bigint): void
  readonly isEmpty: boolean
}

export type SeenLimits = Pick<Limits, 'shownClients' | 'shownAddresses'>

/** Creates the accounts of one front. */
export function createSeenAccounts(limits: SeenLimits): SeenAccounts {
  const clients = new Map<string, { height: bigint; readonly addresses: Map<string, bigint> }>()
  return {
    record(client, height, addresses) {
      const known = clients.get(client)
      if (known === undefined && clients.size >= limits.shownClients) return
      const entry = known ?? { height, addresses: new Map<string, bigint>() }
      if (height > entry.height) entry.height = height
      for (const address of addresses) {
        entry.addresses.delete(address)
        entry.addresses.set(address, height)
        if (entry.addresses.size > limits.shownAddresses)
          entry.addresses.delete(entry.addresses.keys().next().value!)
      }
      clients.set(client, entry)
    },
    height: (client) => clients.get(client)?.height,
    named: (client, text) => newestNamed(clients.get(client)?.addresses ?? [], text),
    forget(canonical) {
      for (const [client, { height }] of clients) if (height <= canonical) clients.delete(client)
    },
    get isEmpty() {
      return clients.size === 0
    },
  }
}

export function newestNamed(accounts: Iterable<readonly [string, bigint]>, text: string): bigint {
  let newest = 0n
  for (const [address, height] of accounts)
    if (height > newest && text.includes(address)) newest = height
  return newest
}

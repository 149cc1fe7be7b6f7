/** What clients were shown above `latest`: their receipts' accounts, each with the newest block that it was shown in. */
import type { Limits } from '../seam/limits.ts'

export interface ShownNotes {
  /**
   * As far as there is room: of a client that has as many accounts as it may, those shown first are forgotten.
   * @param addresses hex digits of each, without 0x
   */
  note(client: string, height: bigint, addresses: ReadonlySet<string>): void
  /** The newest of the blocks of its receipts; undefined: there is none. */
  height(client: string): bigint | undefined
  /** The newest block in which it was shown an account that this text names, in small letters; 0: none. */
  named(client: string, text: string): bigint
  /** Blocks up to this height are canonical: who was shown nothing else is forgotten. */
  forget(canonical: bigint): void
  readonly isEmpty: boolean
}

export type ShownLimits = Pick<Limits, 'shownClients' | 'shownAddresses'>

/** Of one front. */
export function createShownNotes(limits: ShownLimits): ShownNotes {
  const clients = new Map<string, { height: bigint; readonly addresses: Map<string, bigint> }>()
  return {
    note(client, height, addresses) {
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

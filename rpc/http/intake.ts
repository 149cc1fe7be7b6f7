/** Memory of bodies and messages that are still incomplete, counted per address and in total. */

export interface Intake {
  /**
   * Opens a reservation for one body or message.
   * @param key a `limiterKey`
   * @param cut called when another client needs the memory; it must release the reservation
   */
  open(key: string, cut: () => void): Reservation
  /** Bytes of all clients. */
  readonly bytes: number
}
export interface Reservation {
  /**
   * Reserves the bytes, or none of them. False: the address or the total would exceed its limit.
   */
  take(bytes: number): boolean
  release(): void
}

export type IntakeLimits = {
  readonly bodiesBytes: number
  readonly bodiesBytesPerClient: number
}

type Account = { readonly key: string; bytes: number; readonly all: Set<Share> }
type Share = { readonly cut: () => void; readonly account: Account; bytes: number }

/**
 * Creates the intake. If the total is used up, the address with the most bytes loses its largest
 * reservations. The new client must have fewer bytes than that address, the requested ones
 * included.
 */
export function createIntake(limits: IntakeLimits): Intake {
  /** Addresses with bytes being received. */
  const accounts = new Map<string, Account>()
  let total = 0

  function add(share: Share, bytes: number): void {
    const { account } = share
    if (account.bytes === 0) accounts.set(account.key, account)
    account.all.add(share)
    share.bytes += bytes
    account.bytes += bytes
    total += bytes
  }
  function release(share: Share): void {
    const { account } = share
    account.all.delete(share)
    account.bytes -= share.bytes
    total -= share.bytes
    share.bytes = 0
    if (account.bytes === 0) accounts.delete(account.key)
  }
  const newShare = (key: string, cut: () => void): Share => ({
    cut,
    bytes: 0,
    account: accounts.get(key) ?? { key, bytes: 0, all: new Set() },
  })

  return {
    open(key, cut) {
      let share: Share | undefined
      return {
        take(bytes) {
          // An address without bytes is removed, so it has a new account.
          if (share === undefined || share.bytes === 0) share = newShare(key, cut)
          const { account } = share
          if (account.bytes + bytes > limits.bodiesBytesPerClient) return false
          const over = total + bytes - limits.bodiesBytes
          if (over > 0) {
            const cuts = capacityFor(accounts, over, account.bytes + bytes)
            if (cuts === undefined) return false
            for (const one of cuts) one.cut()
          }
          if (bytes > 0) add(share, bytes)
          return true
        },
        release() {
          if (share !== undefined && share.bytes > 0) release(share)
        },
      }
    },
    get bytes() {
      return total
    },
  }
}

/**
 * Returns the reservations to cut for `bytes`. undefined: the addresses with more than `min` bytes
 * do not have enough.
 */
function capacityFor(
  accounts: ReadonlyMap<string, Account>,
  bytes: number,
  min: number,
): readonly Share[] | undefined {
  const cuts = new Set<Share>()
  const leftOf = new Map<Account, number>()
  for (let left = bytes; left > 0; ) {
    let largest: Account | undefined
    let amount = min
    for (const account of accounts.values()) {
      const own = leftOf.get(account) ?? account.bytes
      if (own <= amount) continue
      largest = account
      amount = own
    }
    if (largest === undefined) return undefined
    const share = largestOf(largest, cuts)
    cuts.add(share)
    leftOf.set(largest, amount - share.bytes)
    left -= share.bytes
  }
  return [...cuts]
}

function largestOf({ all }: Account, without: ReadonlySet<Share>): Share {
  let largest: Share | undefined
  for (const share of all)
    if (!without.has(share) && share.bytes > (largest?.bytes ?? 0)) largest = share
  return largest!
}

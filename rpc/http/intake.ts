/** What is being received: bytes of bodies and messages that are not complete yet, of each address and of all. */

export interface Intake {
  /**
   * For one body or message, whose bytes count until it is released.
   * @param key a `limiterKey`
   * @param cut another needs its room: it has been released when this returns
   */
  open(key: string, cut: () => void): Held
  /** Of all. */
  readonly bytes: number
}
export interface Held {
  /** Counts them, or none of them: false where its address or all together would hold more than they may. */
  take(bytes: number): boolean
  release(): void
}

export type IntakeLimits = {
  readonly bodiesBytes: number
  readonly bodiesBytesPerClient: number
}

type Account = { readonly key: string; bytes: number; readonly all: Set<Share> }
type Share = { readonly cut: () => void; readonly account: Account; bytes: number }

/** Where all is taken, who holds most makes room for who holds less, also after it has come: what is largest of theirs is cut. */
export function createIntake(limits: IntakeLimits): Intake {
  /** An address is forgotten when nothing of it is being received. */
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
    ...{ cut, bytes: 0 },
    account: accounts.get(key) ?? { key, bytes: 0, all: new Set() },
  })

  return {
    open(key, cut) {
      let share: Share | undefined
      return {
        take(bytes) {
          // An address that was forgotten meanwhile has a new account.
          if (share === undefined || share.bytes === 0) share = newShare(key, cut)
          const { account } = share
          if (account.bytes + bytes > limits.bodiesBytesPerClient) return false
          const over = total + bytes - limits.bodiesBytes
          if (over > 0) {
            const cuts = roomFor(accounts, over, account.bytes + bytes)
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

/** What to cut for so many bytes; undefined: there is not as much of those that hold more than `least`. */
function roomFor(
  accounts: ReadonlyMap<string, Account>,
  bytes: number,
  least: number,
): readonly Share[] | undefined {
  const cuts = new Set<Share>()
  const leftOf = new Map<Account, number>()
  for (let left = bytes; left > 0; ) {
    let most: Account | undefined
    let amount = least
    for (const account of accounts.values()) {
      const own = leftOf.get(account) ?? account.bytes
      if (own <= amount) continue
      most = account
      amount = own
    }
    if (most === undefined) return undefined
    const share = largestOf(most, cuts)
    cuts.add(share)
    leftOf.set(most, amount - share.bytes)
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

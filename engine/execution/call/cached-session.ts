/**
 * A session that several calls on one state share in turn, so that later calls find earlier reads.
 */
import type { Session } from '../../evm/engine.ts'
import type { StateReader } from '../../state/reader.ts'

export interface CachedSession {
  /** The state that the session reads. */
  readonly reader: StateReader
  /**
   * Takes the session for one call, which undoes its changes; opened at the first use. undefined if
   * another call has the session.
   */
  take(): Session | undefined
  /**
   * Returns the session after the call.
   * @param isIntact false if the call did not end normally; the session is then closed
   */
  give(isIntact: boolean): void
  /** Closes the session; a repeated call has no effect. */
  close(): void
}

/**
 * Approximate bytes of state in a session before it is replaced. Calls of one task could otherwise
 * read state without limit.
 */
const MAX_BYTES = 2 * 1024 * 1024
/** Approximate bytes of an account or a slot. */
const ENTRY_BYTES = 512

/** @param open opens a session on a wrapper of `reader` that counts reads */
export function createCachedSession(
  reader: StateReader,
  open: (reader: StateReader) => Session,
): CachedSession {
  let session: Session | undefined
  let isTaken = false
  let bytes = 0
  // Each read counts, because a session reads each part of the state only once.
  const counting: StateReader = {
    account(address, out, at) {
      bytes += ENTRY_BYTES
      return reader.account(address, out, at)
    },
    slot(address, key, out, at) {
      bytes += ENTRY_BYTES
      return reader.slot(address, key, out, at)
    },
    code(hash) {
      const code = reader.code(hash)
      if (code !== 'missing') bytes += code.length
      return code
    },
    blockHash: (number) => reader.blockHash(number),
    hasSlots: (address) => reader.hasSlots(address),
    slots: (address) => reader.slots(address),
  }
  function close(): void {
    const ended = session
    session = undefined
    bytes = 0
    ended?.close()
  }
  return {
    reader,
    take() {
      if (isTaken) return undefined
      session ??= open(counting)
      isTaken = true
      return session
    },
    give(isIntact) {
      isTaken = false
      if (!isIntact || bytes > MAX_BYTES) close()
    },
    close,
  }
}

/** A cached session that is never available, for a call that shares no session. */
export const noSession = (reader: StateReader): CachedSession => ({
  reader,
  take: () => undefined,
  give() {},
  close() {},
})

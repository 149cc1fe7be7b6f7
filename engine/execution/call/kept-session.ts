/** A session that several calls on one state use one after the other: what the first has read, the others find there. */
import type { Session } from '../../evm/engine.ts'
import type { StateReader } from '../../state/reader.ts'

export interface KeptSession {
  /** What it is a session on. */
  readonly reader: StateReader
  /** For one call, which undoes what it does; opened at the first use. undefined: another call has it. */
  take(): Session | undefined
  /** After the call. `isWhole` false: it did not come to an end of its own, and the session goes with it. */
  give(isWhole: boolean): void
  /** Again: nothing happens. */
  close(): void
}

/** About what a session may hold of a state before it is exchanged: calls of one task may touch different parts of it without end. */
const MAX_BYTES = 2 * 1024 * 1024
/** About what an account or a slot takes in it. */
const ENTRY_BYTES = 512

/** `open` gives a session on the reader that it gets, which is `reader` and counts. */
export function keptSession(
  reader: StateReader,
  open: (reader: StateReader) => Session,
): KeptSession {
  let session: Session | undefined
  let isTaken = false
  let bytes = 0
  // A session asks for each part of a state once.
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
    give(isWhole) {
      isTaken = false
      if (!isWhole || bytes > MAX_BYTES) close()
    },
    close,
  }
}

/** For a call that shares no session with others. */
export const noSession = (reader: StateReader): KeptSession => ({
  reader,
  take: () => undefined,
  give() {},
  close() {},
})

/** Methods of a session that read and write state through its instance. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { StateReader } from '../../state/reader.ts'
import { wordsOf } from '../../state/words.ts'
import type { Session } from '../engine.ts'
import { accessedIn, accountAt, diffSince } from './diff.ts'
import type { Instance } from './instance.ts'

type StateMethods = Omit<Session, 'run' | 'reopen' | 'fieldsRead' | 'setTrace' | 'close'>

/** @param use returns the instance, or throws if the session is closed */
export function stateMethods(use: () => Instance, reader: () => StateReader): StateMethods {
  return {
    account: (address) => {
      const instance = use()
      return accountAt(instance, recordOf(instance, address))
    },
    exists(address) {
      const instance = use()
      const record = recordOf(instance, address)
      const { A_FLAGS, IS_THERE } = instance.layout
      return (instance.data.getUint32(record + A_FLAGS, true) & IS_THERE) !== 0
    },
    code(address) {
      const instance = use()
      return codeAt(instance, recordOf(instance, address))
    },
    slot(address, key) {
      const instance = use()
      putArguments(instance, address, key)
      return instance.word(instance.exports.slotOf() + instance.layout.S_VALUE)
    },
    warm(address, keys = []) {
      const instance = use()
      putArguments(instance, address)
      instance.exports.warmAddress()
      for (const key of keys) {
        putArguments(instance, address, key)
        instance.exports.warmKey()
      }
    },
    accessed: () => accessedIn(use()),
    ...writes(use),
    ...positions(use, reader),
  }
}

function writes(
  use: () => Instance,
): Pick<Session, 'addBalance' | 'setNonce' | 'setCode' | 'setSlot' | 'clearStorage'> {
  return {
    addBalance(address, wei) {
      const instance = use()
      putArguments(instance, address)
      const { ARGUMENTS } = instance.layout
      instance.putNumber(ARGUMENTS + 64, BigInt.asUintN(256, wei))
      instance.bytes.subarray(ARGUMENTS + 64, ARGUMENTS + 96).reverse()
      instance.exports.addBalance()
    },
    setNonce(address, nonce) {
      const instance = use()
      putArguments(instance, address)
      instance.data.setBigUint64(instance.layout.GAS, nonce, true)
      instance.exports.putNonce()
    },
    setCode(address, code) {
      const instance = use()
      const at = instance.exports.inputArea(code.length)
      instance.bytes.set(code, at)
      putArguments(instance, address)
      instance.exports.putCode(code.length)
    },
    setSlot(address, key, value) {
      const instance = use()
      putArguments(instance, address, key)
      instance.bytes.set(value, instance.layout.ARGUMENTS + 64)
      instance.exports.putSlot()
    },
    clearStorage(address) {
      const instance = use()
      putArguments(instance, address)
      instance.exports.clearSlots()
    },
  }
}

function positions(
  use: () => Instance,
  reader: () => StateReader,
): Pick<Session, 'startTransaction' | 'endTransaction' | 'checkpoint' | 'revert' | 'diff'> {
  return {
    startTransaction: () => use().exports.beginTransaction(),
    endTransaction: () => use().exports.endTransaction(),
    checkpoint: () => use().exports.checkpoint(),
    revert(checkpoint) {
      const { exports } = use()
      const end = exports.checkpoint()
      if (checkpoint > end)
        throw new RangeError(`no checkpoint ${checkpoint}, the journal ends at ${end}`)
      exports.revert(checkpoint)
    },
    diff(since) {
      const instance = use()
      return diffSince(instance, {
        since,
        storageOf: (address) => reader().slots(wordsOf(address)),
        codeOf: (record) => codeAt(instance, record),
      })
    },
  }
}

/** Writes 20 bytes of address, and 32 of the key if present. */
function putArguments(instance: Instance, address: Bytes, key?: Bytes): void {
  const { bytes, layout } = instance
  bytes.set(address, layout.ARGUMENTS)
  if (key !== undefined) bytes.set(key, layout.ARGUMENTS + 32)
}

function recordOf(instance: Instance, address: Bytes): number {
  putArguments(instance, address)
  return instance.exports.accountOf()
}

function codeAt(instance: Instance, record: number): Bytes {
  const entry = instance.exports.codeEntryOf(record)
  const { data, layout } = instance
  return instance.slice(entry + layout.C_BYTES, data.getUint32(entry + layout.C_LENGTH, true))
}

/** A session of the fast engine uses one instance of the module from opening to close. */
import { bytesToHex } from '../../primitives/hex.ts'
import type { StateReader } from '../../state/reader.ts'
import type { CodeCache } from '../code-cache.ts'
import {
  type BlockEnv,
  boundMessage,
  ClosedError,
  type Session,
  type SessionRules,
  type TraceSink,
  TrapError,
} from '../engine.ts'
import { refusedCreation } from '../nonce-limit.ts'
import type { IdleInstances, Instance } from './instance.ts'
import { Ended } from './reads.ts'
import type { FastRules } from './rules.ts'
import { makeRunner } from './run.ts'
import { stateMethods } from './state-methods.ts'

export type SessionOptions = {
  readonly idle: IdleInstances
  readonly codes: CodeCache
  readonly rules: SessionRules
  readonly fast: FastRules
  readonly reader: StateReader
  readonly block: BlockEnv
}
export function openFastSession(options: SessionOptions): Session {
  const { idle, codes, rules, fast } = options
  let { reader, block } = options
  let open: Instance | undefined = idle.take()
  const instance = open
  let lost: TrapError | undefined
  const use = (): Instance => {
    if (open === undefined) throw new ClosedError()
    if (lost !== undefined) throw lost
    return open
  }
  /** A trap inside or outside of a run makes session and instance unusable. */
  const failed = (error: unknown): unknown => {
    if (!(error instanceof WebAssembly.RuntimeError || error instanceof Ended)) return error
    instance.isBroken = true
    lost = new TrapError(`the engine trapped: ${error.message}`, { cause: error })
    return lost
  }
  const runner = makeRunner(instance, { fast, codes, reader: () => reader })
  instance.calls = runner.calls
  runner.setTrace(undefined)
  start(instance, { rules, fast, block })
  let isRunning = false
  let trace: TraceSink | undefined
  const methods: Omit<Session, 'close'> = {
    ...stateMethods(use, () => reader),
    run(given, limits) {
      const message = boundMessage(given, limits)
      use()
      if (isRunning) throw new Error('a session runs one message at a time')
      const refused = refusedCreation(methods, message, trace)
      if (refused !== undefined) return refused
      isRunning = true
      try {
        return runner.run(message, { baseFee: message.baseFee ?? block.baseFee, limits })
      } finally {
        isRunning = false
      }
    },
    reopen(nextReader, nextBlock) {
      use()
      reader = nextReader
      block = nextBlock
      start(instance, { rules, fast, block })
    },
    setTrace(sink) {
      use()
      trace = sink
      runner.setTrace(sink)
    },
    fieldsRead: () => use().exports.fieldsRead.value,
  }
  return {
    ...guarded(methods, failed),
    close() {
      if (open === undefined) throw new ClosedError()
      open = undefined
      idle.give(instance)
    },
  }
}

/** Wraps each method so that its errors pass through `failed`. */
function guarded<Methods extends object>(
  methods: Methods,
  failed: (error: unknown) => unknown,
): Methods {
  const guard = (method: (...given: readonly unknown[]) => unknown) =>
    function guardedMethod(...given: readonly unknown[]): unknown {
      try {
        return method(...given)
      } catch (error) {
        throw failed(error)
      }
    }
  const all = Object.entries(methods).map(([name, method]) => [name, guard(method)])
  return Object.fromEntries(all) as Methods
}

type Start = { readonly rules: SessionRules; readonly fast: FastRules; readonly block: BlockEnv }

function start(instance: Instance, { rules, fast, block }: Start): void {
  instance.exports.reset()
  putRules(instance, fast)
  putBlock(instance, block, rules.chainId)
  putPrecompiles(instance, fast, rules)
}

function putRules(instance: Instance, fast: FastRules): void {
  if (instance.rules === fast) return
  const { exports, bytes, layout } = instance
  exports.setRules(Number(fast.hasDelegations), Number(fast.hasLeadingZeros))
  bytes.set(fast.rows, layout.OPCODES)
  instance.rules = fast
}

function putBlock(instance: Instance, block: BlockEnv, chainId: bigint): void {
  const { ENVIRONMENT } = instance.layout
  instance.putWord(ENVIRONMENT, block.coinbase)
  instance.putNumber(ENVIRONMENT + 32, block.timestamp)
  instance.putNumber(ENVIRONMENT + 64, block.number)
  instance.putWord(ENVIRONMENT + 96, block.prevRandao)
  instance.putNumber(ENVIRONMENT + 128, block.gasLimit)
  instance.putNumber(ENVIRONMENT + 160, chainId)
  instance.putNumber(ENVIRONMENT + 224, block.blobBaseFee)
}

/**
 * Registers the precompiled contracts by numbers from 1, in table order. A moved contract is not
 * warm at its new address (go-ethereum: Prepare).
 */
function putPrecompiles(instance: Instance, fast: FastRules, { moved = [] }: SessionRules): void {
  const { exports, layout } = instance
  const put = (address: Uint8Array, number: number, isAlwaysWarm: boolean) => {
    instance.bytes.set(address, layout.ARGUMENTS)
    exports.addPrecompile(number, Number(isAlwaysWarm))
  }
  const numbers = new Map<string, number>()
  for (const [index, address] of fast.addresses.entries()) {
    put(address, index + 1, true)
    if (moved.length > 0) numbers.set(bytesToHex(address), index + 1)
  }
  for (const { from } of moved) put(from, 0, false)
  for (const { from, to } of moved) {
    const number = numbers.get(bytesToHex(from))
    if (number !== undefined && to !== undefined) put(to, number, false)
  }
}

/** The reference engine: @ethereumjs/evm over our own state. It is slow and correct. */
import { EVM, EVMError, type EVMResult, type EVMRunCallOpts } from '@ethereumjs/evm'
import { Address } from '@ethereumjs/util'
import type { EvmRules } from '../../chainspec/types.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { ZERO_32 } from '../../primitives/words.ts'
import { MissingError, type StateReader } from '../../state/reader.ts'
import { ALL_FIELDS } from '../block-fields.ts'
import { type CodeCache, codeCache } from '../code-cache.ts'
import {
  type BlockEnv,
  boundMessage,
  ClosedError,
  type Engine,
  type Limits,
  type Message,
  missingOf,
  type Outcome,
  type Session,
  type TraceSink,
} from '../engine.ts'
import { JournaledState } from '../journal/journaled-state.ts'
import { refusedCreation } from '../nonce-limit.ts'
import { addressesOf, type Kernel, makeKernel, movePrecompiles, type RunTrace } from './kernel.ts'
import { Meter, Stopped } from './meter.ts'
import { outcomeOf } from './outcome.ts'
import { ReferenceStateManager, referenceJournal } from './state-manager.ts'
import { traceEvents } from './trace.ts'
import { Transient } from './transient.ts'

/** Bytes; the jump tables of code take about twenty times its size. */
const CODE_CACHE_BYTES = 4 * 1024 * 1024

/** Makes an engine with its own caches of code and rule sets; a thread needs one. */
export function makeReferenceEngine(): Engine {
  const codes = codeCache(CODE_CACHE_BYTES)
  const idle: IdleEvms = new WeakMap()
  // Changes of precompiled contracts are one object for each fork, or undefined.
  const kernels = new Map<EvmRules['precompiles'], ReadonlyMap<string, Kernel>>()
  function kernelOf(rules: EvmRules): Kernel {
    const key = `${rules.chainId} ${rules.spec}`
    const known = kernels.get(rules.precompiles)
    const found = known?.get(key)
    if (found !== undefined) return found
    const kernel = makeKernel(rules)
    kernels.set(rules.precompiles, new Map(known).set(key, kernel))
    return kernel
  }
  return {
    name: 'reference',
    openSession(reader, block, rules) {
      const { moved } = rules
      const kernel = moved === undefined ? kernelOf(rules) : movePrecompiles(kernelOf(rules), moved)
      return openSession({ kernel, codes, idle, reader, block })
    },
    precompiles: (rules) => addressesOf(kernelOf(rules)),
  }
}

function openSession(options: {
  readonly kernel: Kernel
  readonly codes: CodeCache
  readonly idle: IdleEvms
  readonly reader: StateReader
  readonly block: BlockEnv
}): Session {
  const { kernel, codes, idle } = options
  const state = new JournaledState(options.reader, {
    codes,
    // EIP-161 was activated with EIP-607.
    keepsEmpty: !kernel.common.isActivatedEIP(607),
    alwaysWarm: kernel.alwaysWarm,
  })
  let block = options.block
  let access = accessOf(state)
  let trace: TraceSink | undefined
  let traced: SessionEvm | undefined

  function takeEvm(): SessionEvm {
    if (trace === undefined) return takeIdle(idle, kernel, access)
    traced ??= new SessionEvm(kernel, access, { state, trace })
    return traced
  }

  async function run(message: Message, limits?: Limits): Promise<Outcome> {
    const refused = refusedCreation(session, message, trace)
    if (refused !== undefined) return refused
    const mark = state.checkpoint()
    const evm = takeEvm()
    let isIntact = true
    try {
      evm.start(limits, message.refund)
      const result = await evm.runCall(callOptions(message, block))
      const outcome = outcomeOf(result, message.gas, kernel.common)
      if (outcome.status === 'success') markDestroyed(state, kernel, result)
      return outcome
    } catch (error) {
      // A foreign error leaves the EVM in the middle of a call, so the next run gets another.
      isIntact = false
      traced = undefined
      access = accessOf(state)
      state.revert(mark)
      if (error instanceof Stopped) return { status: 'stopped', why: error.why }
      if (error instanceof MissingError) return missingOf(error)
      if (!(error instanceof EVMError)) throw error
      const reason = haltBeforeFrame(error)
      trace?.exit?.(reason, 0n, NO_BYTES)
      return { status: 'halt', reason }
    } finally {
      if (isIntact && evm.runTrace === undefined) idle.set(kernel, evm)
    }
  }

  const session: Session = {
    ...stateAccess(state),
    run: (message, limits) => run(boundMessage(message, limits), limits),
    reopen(reader, nextBlock) {
      state.reopen(reader)
      block = nextBlock
    },
    setTrace(sink) {
      trace = sink
      traced = undefined
    },
    close: () => void Object.assign(session, closed(session)),
  }
  return session
}

/** Replacements for the methods of a closed session. An open session needs no check of its own. */
function closed(session: Session): Readonly<Record<string, () => never>> {
  const refuse = (): never => {
    throw new ClosedError()
  }
  return Object.fromEntries(Object.keys(session).map((name) => [name, refuse]))
}

/** The methods of a session that need only state. */
function stateAccess(
  state: JournaledState,
): Omit<Session, 'run' | 'reopen' | 'setTrace' | 'close'> {
  return {
    // The package does not report which fields were read.
    fieldsRead: () => ALL_FIELDS,
    account(address) {
      const { nonce, balance, codeHash } = state.entry(address)
      return { nonce, balance, codeHash }
    },
    exists: (address) => state.entry(address).isThere,
    code: (address) => state.code(state.entry(address)),
    slot: (address, key) => state.slot(state.entry(address), key).value,
    addBalance(address, wei) {
      const entry = state.entry(address)
      state.setAccount(entry, entry.nonce, entry.balance + wei)
    },
    setNonce(address, nonce) {
      const entry = state.entry(address)
      state.setAccount(entry, nonce, entry.balance)
    },
    setCode: (address, code) => state.setCode(state.entry(address), code),
    setSlot(address, key, value) {
      const entry = state.entry(address)
      state.setAccount(entry, entry.nonce, entry.balance)
      state.setSlot(entry, state.slot(entry, key), value.slice())
    },
    clearStorage: (address) => state.clearStorage(state.entry(address)),
    warm(address, keys = []) {
      state.warm(address)
      for (const key of keys) state.warmSlot(address, key)
    },
    accessed: () => state.accessed(),
    startTransaction: () => state.startTransaction(),
    endTransaction: () => state.endTransaction(),
    checkpoint: () => state.checkpoint(),
    revert: (checkpoint) => state.revert(checkpoint),
    diff: (since) => state.diff(since),
  }
}

/** Idle EVMs for the next sessions, because making one takes longer than a small call. */
type IdleEvms = WeakMap<Kernel, SessionEvm>

function takeIdle(idle: IdleEvms, kernel: Kernel, access: Access): SessionEvm {
  const evm = idle.get(kernel)
  if (evm === undefined) return new SessionEvm(kernel, access)
  idle.delete(kernel)
  return Object.assign(evm, access)
}
/** An EVM's access to a session's state. */
type Access = Pick<EVM, 'stateManager' | 'blockchain' | 'journal'>
const accessOf = (state: JournaledState): Access => ({
  stateManager: new ReferenceStateManager(state),
  blockchain: ancestors(state),
  journal: referenceJournal(state),
})

type CallMessage = Parameters<EVM['_executeCall']>[0]

class SessionEvm extends EVM {
  readonly meter: Meter
  /** Refund counter before the first opcode. */
  #firstRefund = 0n
  readonly runTrace: RunTrace | undefined

  constructor(
    kernel: Kernel,
    access: Access,
    traced?: { readonly state: JournaledState; readonly trace: TraceSink },
  ) {
    const meter = new Meter()
    super({
      common: kernel.common,
      stateManager: access.stateManager,
      blockchain: access.blockchain,
      // The kernel's parameters are complete; without this the package copies its own again.
      params: {},
    })
    this.meter = meter
    // Rules never change under an EVM, and the listener would keep every EVM alive with the kernel.
    kernel.common.events.removeAllListeners()
    this.journal = access.journal
    Object.assign(this, { transientStorage: new Transient() })
    this._opcodeMap = traced === undefined ? kernel.opcodes : kernel.tracedOpcodes
    this._precompiles = kernel.precompiles
    this.runTrace = traced && traceEvents(this, traced.state, traced.trace)
  }

  /** Resets meter, transient storage and refund counter before each message. */
  start(limits: Limits | undefined, refund = 0n): void {
    this.meter.start(limits)
    this.transientStorage.clear()
    this.#firstRefund = refund
  }

  protected override _executeCall(message: CallMessage): Promise<EVMResult> {
    if (message.depth === 0) message.gasRefund = this.#firstRefund
    return super._executeCall(message)
  }

  /** The kernel has the table; building it takes longer than a small call. */
  override getActiveOpcodes(): ReturnType<EVM['getActiveOpcodes']> {
    return new Map()
  }
}

/** Block hashes for BLOCKHASH. */
function ancestors(state: JournaledState) {
  const blockchain = {
    async getBlock(number: number) {
      const hash = state.reader.blockHash(BigInt(number))
      if (hash === 'missing') throw new MissingError({ kind: 'blockHash', number: BigInt(number) })
      return { hash: (): Bytes => hash ?? ZERO_32 }
    },
    async putBlock() {},
    shallowCopy: () => blockchain,
  }
  return blockchain
}

function callOptions(message: Message, block: BlockEnv): EVMRunCallOpts {
  return {
    block: {
      header: {
        number: block.number,
        coinbase: new Address(block.coinbase),
        timestamp: block.timestamp,
        difficulty: block.difficulty,
        prevRandao: block.prevRandao,
        gasLimit: block.gasLimit,
        baseFeePerGas: message.baseFee ?? block.baseFee,
        getBlobGasPrice: () => block.blobBaseFee,
      },
    },
    caller: new Address(message.from),
    ...(message.to === undefined ? {} : { to: new Address(message.to) }),
    origin: new Address(message.origin),
    value: message.value,
    data: message.input,
    gasLimit: message.gas,
    gasPrice: message.gasPrice,
    skipNonceIncrement: true,
    blobVersionedHashes: (message.blobHashes ?? []).map(bytesToHex),
  }
}

/** Since EIP-6780 a contract is destroyed only in the transaction that created it. */
function markDestroyed(
  state: JournaledState,
  kernel: Kernel,
  { execResult }: Awaited<ReturnType<EVM['runCall']>>,
): void {
  const isSameTransactionOnly = kernel.common.isActivatedEIP(6780)
  for (const address of execResult.selfdestruct?.keys() ?? [])
    if (!isSameTransactionOnly || execResult.createdAddresses?.has(address) === true)
      state.destroy(state.entry(Buffer.from(address.slice(2), 'hex')))
}

/**
 * The sender of a creation cannot pay the value. It is the only error that the package throws after
 * its frame has started.
 */
const haltBeforeFrame = (error: EVMError): string =>
  error.error === EVMError.errorMessages.INSUFFICIENT_BALANCE
    ? 'insufficient balance for transfer'
    : error.error

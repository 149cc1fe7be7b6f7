/** The reference engine: @ethereumjs/evm over our own state. Slow, and right. */
import { EVM, EVMError, type EVMRunCallOpts, NobleBN254 } from '@ethereumjs/evm'
import { Address } from '@ethereumjs/util'
import type { EvmRules } from '../chainspec/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { ZERO_32 } from '../primitives/words.ts'
import { MissingError, type StateReader } from '../state/reader.ts'
import { type CodeCache, codeCache } from './code-cache.ts'
import type { BlockEnv, Engine, Limits, Message, Outcome, Session, TraceSink } from './engine.ts'
import { JournaledState } from './journaled-state.ts'
import { Meter, Stopped } from './meter.ts'
import {
  addressesOf,
  type Kernel,
  makeKernel,
  movePrecompiles,
  type RunTrace,
} from './reference-kernel.ts'
import { outcomeOf } from './reference-outcome.ts'
import { ReferenceStateManager, referenceJournal } from './reference-state.ts'
import { traceEvents } from './reference-trace.ts'

/** Bytes. The jump tables of code take some twenty times its size. */
const CODE_CACHE_BYTES = 4 * 1024 * 1024

/** One set of caches: code and the parameters of each rule set. One for a thread is right. */
export function makeReferenceEngine(): Engine {
  const codes = codeCache(CODE_CACHE_BYTES)
  const kernels = new Map<string, Kernel>()
  function kernelOf(rules: EvmRules): Kernel {
    const key = `${rules.chainId} ${rules.spec} ${rules.precompiles}`
    let kernel = kernels.get(key)
    if (kernel === undefined) {
      kernel = makeKernel(rules)
      kernels.set(key, kernel)
    }
    return kernel
  }
  return {
    name: 'reference',
    openSession(reader, block, rules) {
      const { moved } = rules
      const kernel = moved === undefined ? kernelOf(rules) : movePrecompiles(kernelOf(rules), moved)
      return openSession({ kernel, codes, reader, block })
    },
    precompiles: (rules) => addressesOf(kernelOf(rules)),
  }
}

export const referenceEngine: Engine = makeReferenceEngine()

function openSession(options: {
  readonly kernel: Kernel
  readonly codes: CodeCache
  readonly reader: StateReader
  readonly block: BlockEnv
}): Session {
  const { kernel, codes } = options
  const state = new JournaledState(options.reader, {
    codes,
    keepsEmpty: !kernel.common.gteHardfork('spuriousDragon'),
    alwaysWarm: kernel.alwaysWarm,
  })
  let block = options.block
  let trace: TraceSink | undefined
  // After an error that is not the EVM's own its object is left in the middle of a call: the next run gets another.
  let evm: SessionEvm | undefined

  async function run(message: Message, limits?: Limits): Promise<Outcome> {
    const mark = state.checkpoint()
    evm ??= new SessionEvm(kernel, state, trace)
    try {
      evm.meter.start(limits)
      evm.transientStorage.clear()
      const result = await evm.runCall(callOptions(message, block))
      const outcome = outcomeOf(result, message.gas, kernel.common)
      if (outcome.status === 'success') markDestroyed(state, kernel, result)
      return outcome
    } catch (error) {
      evm = undefined
      state.revert(mark)
      if (error instanceof Stopped) return { status: 'stopped', why: error.why }
      if (error instanceof MissingError) return { status: 'missing', what: error.what }
      if (error instanceof EVMError) return { status: 'halt', reason: haltBeforeFrame(error) }
      throw error
    }
  }

  return {
    ...stateAccess(state),
    run,
    reopen(reader, nextBlock) {
      state.reopen(reader)
      block = nextBlock
    },
    setTrace(sink) {
      trace = sink
      evm = undefined
    },
  }
}

/** Everything of a session that is state alone. */
function stateAccess(state: JournaledState): Omit<Session, 'run' | 'reopen' | 'setTrace'> {
  return {
    account(address) {
      const { nonce, balance, codeHash } = state.entry(address)
      return { nonce, balance, codeHash }
    },
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
    beginTransaction: () => state.beginTransaction(),
    endTransaction: () => state.endTransaction(),
    checkpoint: () => state.checkpoint(),
    revert: (checkpoint) => state.revert(checkpoint),
    diff: (since) => state.diff(since),
  }
}

class SessionEvm extends EVM {
  readonly meter = new Meter()
  readonly runTrace: RunTrace | undefined

  constructor(kernel: Kernel, state: JournaledState, trace: TraceSink | undefined) {
    super({
      common: kernel.common,
      stateManager: new ReferenceStateManager(state),
      blockchain: ancestors(state),
      bn254: new NobleBN254(),
      // The kernel's parameters are complete; without this the package copies its own again.
      params: {},
    })
    // Rules never change under an EVM; the listener would keep every EVM alive with the kernel.
    kernel.common.events.removeAllListeners()
    this.journal = referenceJournal(state)
    this._opcodeMap = trace === undefined ? kernel.opcodes : kernel.tracedOpcodes
    this._precompiles = kernel.precompiles
    this.runTrace = trace === undefined ? undefined : traceEvents(this, state, trace)
  }

  /** The kernel has them: building the table takes the package longer than a small call. */
  override getActiveOpcodes(): ReturnType<EVM['getActiveOpcodes']> {
    return new Map()
  }
}

/** Answers BLOCKHASH. */
function ancestors(state: JournaledState) {
  const blockchain = {
    async getBlock(number: number) {
      const hash = state.reader.blockHash(BigInt(number))
      if (hash === 'missing') throw new MissingError(`hash of block ${number}`)
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

/** Since EIP-6780 a contract goes only in the transaction that created it. */
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

/** The sender cannot pay the value: the only error the package throws instead of reporting it. */
const haltBeforeFrame = (error: EVMError): string =>
  error.error === EVMError.errorMessages.INSUFFICIENT_BALANCE
    ? 'insufficient balance for transfer'
    : error.error

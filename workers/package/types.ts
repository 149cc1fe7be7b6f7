/** Types of `createNode` and its result. */

import type { FLAGS } from '../commands/dev/flags.ts'
import type { Given } from '../config/command.ts'

export type Hex = `0x${string}`

type Flags = Given<typeof FLAGS>
type DevFlags = { readonly [Name in keyof Flags]?: Flags[Name] | undefined }

/**
 * Flags of `flashnode dev` in camel case: `blockTimeMs` is `--block-time-ms`, and is checked like
 * the flag.
 */
export type NodeOptions = Omit<DevFlags, 'port'> & {
  /**
   * Port on 127.0.0.1, or on `host`. The default 0 takes a free one; 'none' allows only `request`.
   */
  readonly port?: number | 'none' | undefined
  /** 'clock', the default, makes blocks by itself; 'scripted' makes only what `feed` requests. */
  readonly feed?: 'clock' | 'scripted' | undefined
}

/**
 * A provider of EIP-1193: viem takes it as `custom(node)`, ethers as `new BrowserProvider(node)`.
 */
export interface Provider {
  /** @throws {ProviderError} for an error response of the node */
  request<Result = unknown>(call: {
    readonly method: string
    readonly params?: readonly unknown[] | object | undefined
  }): Promise<Result>
  /** The only event is 'message', a notification of an `eth_subscribe` subscription. */
  on(event: string, listener: (message: ProviderMessage) => void): this
  removeListener(event: string, listener: (message: ProviderMessage) => void): this
}

export type ProviderMessage = {
  readonly type: 'eth_subscription'
  readonly data: { readonly subscription: string; readonly result: unknown }
}

/** Position of a flashblock: its block's number, and its index in the block. */
export type FlashblockPosition = { readonly number: number; readonly index: number }
export type Head = { readonly number: number; readonly hash: Hex }

/** Controls of the sequencer. Each resolves when its effect can be read. */
export interface Feed {
  /** Seals the block in progress; afterwards the chain moves only on request. */
  pause(): Promise<Head>
  resume(): Promise<void>
  /**
   * Makes the next flashblock of a paused chain from waiting transactions; index 0 has none of
   * users.
   */
  step(): Promise<FlashblockPosition>
  /**
   * Accepts transactions on a paused chain, and makes a flashblock of the waiting ones.
   * @param transactions signed bytes, or `eth_sendTransaction` requests of an unlocked account
   * @returns the flashblock's position, and the transactions' hashes
   */
  push(
    transactions?: readonly (Hex | object)[],
  ): Promise<FlashblockPosition & { readonly hashes: readonly Hex[] }>
  /** Seals the block in progress, or makes one. */
  seal(): Promise<Head>
  /**
   * Reverts the newest `depth` blocks (default 1) and the one in progress; with `keep` their
   * transactions wait again.
   */
  reorg(options?: { readonly depth?: number; readonly keep?: boolean }): Promise<unknown>
  /** Sends the newest flashblock with transactions again, without them. */
  equivocate(options?: { readonly keep?: boolean }): Promise<unknown>
  /** Omits the next flashblock from the feed. */
  gap(): Promise<void>
  /** Stops the feed for this many milliseconds. */
  silence(ms: number): Promise<void>
}

export type Account = { readonly address: Hex; readonly privateKey: Hex }

/**
 * A development chain. As a provider it is the flashblocks endpoint: `pending` is the state after
 * the last flashblock.
 */
export interface LocalNode extends Provider, AsyncDisposable {
  /** The standard endpoint, which has only sealed blocks. */
  readonly sealed: Provider
  readonly chainId: number
  /** The ten unlocked accounts, whose keys are public. */
  readonly accounts: readonly Account[]
  readonly feed: Feed
  /** Answers open requests, ends the threads and removes the data, unless `datadir` was given. */
  close(): Promise<void>
}

export interface ListeningNode extends LocalNode {
  /** The standard endpoint `http://127.0.0.1:PORT`, which accepts WebSockets too. */
  readonly url: string
  /** The flashblocks endpoint: `url` with `/flashblocks`. */
  readonly flashblocksUrl: string
  /** The feed of raw flashblocks, `ws://127.0.0.1:PORT/feed`. */
  readonly feedUrl: string
}

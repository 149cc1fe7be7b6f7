/** What `createNode` takes and gives. */

import type { FLAGS } from '../commands/dev/flags.ts'
import type { Given } from '../config/command.ts'

export type Hex = `0x${string}`

type Flags = Given<typeof FLAGS>
type DevFlags = { readonly [Name in keyof Flags]?: Flags[Name] | undefined }

/** A flag of `flashnode dev` by its name in camel case: `blockTimeMs` is `--block-time-ms`, and is checked as that is. */
export type NodeOptions = Omit<DevFlags, 'port'> & {
  /** Of 127.0.0.1 unless `host` says otherwise; 0, the default: a free one. 'none': the node is asked by `request` alone. */
  readonly port?: number | 'none' | undefined
  /** 'clock', the default: blocks come by themselves. 'scripted': the chain stands still, and makes what `feed` is told. */
  readonly feed?: 'clock' | 'scripted' | undefined
}

/** As EIP-1193 has it: viem takes it as `custom(node)`, ethers as `new BrowserProvider(node)`. */
export interface Provider {
  /** @throws {ProviderError} what the node answers instead of a result */
  request<Result = unknown>(call: {
    readonly method: string
    readonly params?: readonly unknown[] | object | undefined
  }): Promise<Result>
  /** 'message': what a subscription by `eth_subscribe` tells. No other event comes. */
  on(event: string, listener: (message: ProviderMessage) => void): this
  removeListener(event: string, listener: (message: ProviderMessage) => void): this
}

export type ProviderMessage = {
  readonly type: 'eth_subscription'
  readonly data: { readonly subscription: string; readonly result: unknown }
}

/** Where a flashblock stands: number of its block, and its index in that. */
export type Place = { readonly number: number; readonly index: number }
export type Head = { readonly number: number; readonly hash: Hex }

/** The sequencer, by the controls of a development chain. Each resolves when what it asks for is done and can be read. */
export interface Feed {
  /** Seals the block in progress; from here on nothing is made but at a word. */
  pause(): Promise<Head>
  resume(): Promise<void>
  /** Of a paused chain: the next flashblock, of what waits in the txpool; index 0 has no transactions of users. */
  step(): Promise<Place>
  /**
   * Of a paused chain: accepts the transactions (signed bytes, or requests of an unlocked account as `eth_sendTransaction` takes them), and
   * makes a flashblock of what waits. Gives its place, and their hashes.
   */
  push(
    transactions?: readonly (Hex | object)[],
  ): Promise<Place & { readonly hashes: readonly Hex[] }>
  /** Seals the block in progress, or makes one. */
  seal(): Promise<Head>
  /** Takes back the newest `depth` blocks (1 by default) and the one in progress; `keep`: their transactions wait again. */
  reorg(options?: { readonly depth?: number; readonly keep?: boolean }): Promise<unknown>
  /** Sends the newest flashblock with transactions a second time, without them. */
  equivocate(options?: { readonly keep?: boolean }): Promise<unknown>
  /** The next flashblock is in no feed. */
  gap(): Promise<void>
  /** The feed says nothing for so many milliseconds. */
  silence(ms: number): Promise<void>
}

export type Account = { readonly address: Hex; readonly privateKey: Hex }

/** A development chain of its own. As a provider it is the flashblocks endpoint: `pending` is the state after the last flashblock. */
export interface LocalNode extends Provider, AsyncDisposable {
  /** The standard endpoint: sealed blocks alone. */
  readonly sealed: Provider
  readonly chainId: number
  /** Its ten unlocked accounts, whose keys everybody knows. */
  readonly accounts: readonly Account[]
  readonly feed: Feed
  /** Answers what is in flight, ends its threads and removes its data, unless `datadir` was given. */
  close(): Promise<void>
}

export interface ListeningNode extends LocalNode {
  /** `http://127.0.0.1:PORT`, the standard endpoint; WebSockets are accepted too. */
  readonly url: string
  /** The same with `/flashblocks`. */
  readonly flashblocksUrl: string
  /** Of the raw flashblocks, `ws://127.0.0.1:PORT/feed`. */
  readonly feedUrl: string
}

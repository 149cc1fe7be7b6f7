/**
 * The parts of ethers that tests use, with types of those parts alone. The first import of this
 * module installs the package.
 */
import { requireFrom } from '../kit/own-packages.ts'

type RlpText = string | readonly RlpText[]
type EthersTransaction = {
  readonly to: string | null
  readonly from: string | null
  readonly signature: EthersSignature | null
  readonly gasPrice: bigint | null
  readonly maxFeePerGas: bigint | null
  readonly maxPriorityFeePerGas: bigint | null
  readonly maxFeePerBlobGas: bigint | null
  readonly blobVersionedHashes: readonly string[] | null
  readonly authorizationList:
    | readonly { readonly address: string; readonly nonce: bigint; readonly chainId: bigint }[]
    | null
  readonly accessList:
    | readonly { readonly address: string; readonly storageKeys: readonly string[] }[]
    | null
}
type EthersSignature = { readonly r: string; readonly s: string; readonly yParity: 0 | 1 }

export type JsonRpcProvider = {
  pollingInterval: number
  on(event: string | object, listener: (...values: never[]) => void): Promise<unknown>
  getLogs(filter: object): Promise<readonly unknown[]>
  destroy(): void
}
type ProviderOptions = {
  readonly cacheTimeout?: number
  readonly polling?: boolean
  readonly pollingInterval?: number
  readonly staticNetwork?: boolean
}
export type WebSocketProvider = {
  /** The connection is a `WebSocket` of Node or of `ws`. */
  readonly websocket: { onerror: unknown; onclose: unknown; close(): void }
  on(event: string, listener: (...values: never[]) => void): Promise<unknown>
  destroy(): Promise<void>
}
type Wallet = {
  sendTransaction(request: {
    readonly to: string
    readonly value: bigint
  }): Promise<{ wait(): Promise<object | null> }>
}

type Ethers = {
  encodeRlp(item: RlpText): string
  readonly Transaction: { from(raw: string): EthersTransaction }
  readonly Signature: { from(signature: EthersSignature): EthersSignature }
  readonly JsonRpcProvider: new (
    url: string,
    chainId?: number,
    options?: ProviderOptions,
  ) => JsonRpcProvider
  readonly WebSocketProvider: new (
    url: string,
    chainId: number,
    options: ProviderOptions,
  ) => WebSocketProvider
  readonly Wallet: new (privateKey: string, provider: JsonRpcProvider) => Wallet
}

export const { encodeRlp, Transaction, Signature, JsonRpcProvider, WebSocketProvider, Wallet } =
  requireFrom(new URL('./', import.meta.url))('ethers') as Ethers

/** Keys with which this node signs. */
import { readFileSync } from 'node:fs'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { addressOfKey, sign } from '../../engine/primitives/signature.ts'
import type { AccountService } from '../../rpc/core/ports.ts'
import type { NodeConfig } from '../config/serving-options.ts'
import { KeystoreError, readKeystore } from './keystore.ts'

/**
 * Opens the unlocked keys of the configuration.
 * @param keys further keys of the node
 * @throws {KeystoreError}
 */
export function openKeys(
  config: Pick<NodeConfig, 'unlock' | 'keystore' | 'passwordFile'>,
  keys: readonly Bytes[],
): readonly Bytes[] {
  if (config.unlock.length === 0) return keys
  const { keystore, passwordFile } = config
  if (keystore === undefined || passwordFile === undefined)
    throw new KeystoreError('--unlock needs --keystore DIR and --password-file FILE')
  return [...keys, ...readKeystore(keystore, config.unlock, readPassword(passwordFile))]
}

/**
 * Opens the account service of these keys.
 * @throws {KeystoreError}
 */
export const openAccounts = (...from: Parameters<typeof openKeys>): AccountService =>
  accountsOf(openKeys(...from))

export function accountsOf(keys: readonly Bytes[]): AccountService {
  const addresses = keys.map(addressOfKey)
  const byAddress = new Map(keys.map((key, index) => [bytesToHex(addresses[index]!), key]))
  return {
    addresses: () => addresses,
    sign(address, digest) {
      const key = byAddress.get(bytesToHex(address))
      return key === undefined ? undefined : sign(digest, key)
    },
  }
}

/** Returns the first line of the file, as go-ethereum does. */
function readPassword(path: string): string {
  try {
    return readFileSync(path, 'utf8').split(/\r?\n/, 1)[0]!
  } catch (error) {
    throw new KeystoreError(`--password-file ${path}: ${(error as Error).message}`)
  }
}

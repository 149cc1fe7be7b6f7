/** Key files in go-ethereum's format (Web3 Secret Storage, version 3). */
import { createDecipheriv, pbkdf2Sync, scryptSync, timingSafeEqual } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import { keccak256 } from '../../engine/primitives/keccak.ts'
import { addressOfKey } from '../../engine/primitives/signature.ts'
import { concatBytes } from '../../engine/primitives/words.ts'

/** Maximum memory of a key derivation; scrypt with n = 2^18, r = 8 takes 256 MiB. */
const MAX_DERIVATION_BYTES = 300 * 1024 * 1024
const MAX_ITERATIONS = 10_000_000

/**
 * Reads the private keys of the addresses from a directory of key files.
 * @param addresses lower-case hex
 * @throws {KeystoreError} with the file, or the address without a file
 */
export function readKeystore(
  directory: string,
  addresses: readonly string[],
  password: string,
): Bytes[] {
  const files = new Map<string, { readonly path: string; readonly file: KeyFile }>()
  for (const name of listFiles(directory)) {
    const path = join(directory, name)
    const file = readKeyFile(path)
    if (file !== undefined)
      files.set(`0x${file.address.replace(/^0x/, '').toLowerCase()}`, { path, file })
  }
  return addresses.map((address) => {
    const found = files.get(address)
    if (found === undefined) throw new KeystoreError(`no key file of ${address} in ${directory}`)
    const key = decryptKey(found.file, password, found.path)
    if (bytesToHex(addressOfKey(key)) !== address)
      throw new KeystoreError(`${found.path} has the key of another address`)
    return key
  })
}

export class KeystoreError extends Error {
  override name = 'KeystoreError'
}

type KeyFile = {
  readonly address: string
  readonly crypto: {
    readonly cipher: string
    readonly cipherparams: { readonly iv: string }
    readonly ciphertext: string
    readonly kdf: string
    readonly kdfparams: Readonly<Record<string, unknown>>
    readonly mac: string
  }
}

function listFiles(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch (error) {
    throw new KeystoreError(`--keystore ${directory}: ${(error as Error).message}`)
  }
}

/** Reads a key file; undefined when the file is of another kind. */
function readKeyFile(path: string): KeyFile | undefined {
  try {
    const json = JSON.parse(readFileSync(path, 'utf8')) as Partial<KeyFile>
    return typeof json.address === 'string' && typeof json.crypto === 'object'
      ? (json as KeyFile)
      : undefined
  } catch {
    return undefined
  }
}

/**
 * Decrypts the private key of a key file.
 * @throws {KeystoreError}
 */
export function decryptKey({ crypto }: KeyFile, password: string, path: string): Bytes {
  const derived = derive(crypto, password, path)
  const ciphertext = bytesOf(crypto.ciphertext, path)
  const mac = keccak256(concatBytes(derived.subarray(16, 32), ciphertext))
  const expected = bytesOf(crypto.mac, path)
  if (expected.length !== 32 || !timingSafeEqual(mac, expected))
    throw new KeystoreError(`${path}: wrong password`)
  if (crypto.cipher !== 'aes-128-ctr')
    throw new KeystoreError(`${path}: cipher ${crypto.cipher}, expected aes-128-ctr`)
  const iv = bytesOf(crypto.cipherparams.iv, path)
  const decipher = createDecipheriv('aes-128-ctr', derived.subarray(0, 16), iv)
  return new Uint8Array(Buffer.concat([decipher.update(ciphertext), decipher.final()]))
}

function derive({ kdf, kdfparams }: KeyFile['crypto'], password: string, path: string): Bytes {
  const number = (name: string): number => {
    const value = kdfparams[name]
    if (typeof value === 'number' && Number.isInteger(value) && value > 0) return value
    throw new KeystoreError(`${path}: kdfparams.${name} is not a positive integer`)
  }
  const salt = bytesOf(String(kdfparams['salt']), path)
  if (kdf === 'scrypt') {
    const [N, r, p] = [number('n'), number('r'), number('p')]
    if (128 * N * r * p > MAX_DERIVATION_BYTES)
      throw new KeystoreError(`${path}: its scrypt parameters need too much memory`)
    return scryptSync(password, salt, 32, { N, r, p, maxmem: 2 * MAX_DERIVATION_BYTES })
  }
  if (kdf === 'pbkdf2') {
    const iterations = number('c')
    if (iterations > MAX_ITERATIONS)
      throw new KeystoreError(`${path}: more than ${MAX_ITERATIONS} iterations`)
    return pbkdf2Sync(password, salt, iterations, 32, 'sha256')
  }
  throw new KeystoreError(`${path}: key derivation ${kdf}, expected scrypt or pbkdf2`)
}

function bytesOf(text: string, path: string): Bytes {
  if (/^(?:0x)?(?:[0-9a-fA-F]{2})+$/.test(text))
    return hexToBytes(text.startsWith('0x') ? text : `0x${text}`)
  throw new KeystoreError(`${path}: expected hex digits`)
}

/** Blob transactions on an Ethereum chain have a network form, rules in the pool, and proofs. */
import { beforeAll, describe, expect, test } from 'vitest'
import { rulesOf } from '../../../engine/chainspec/rules.ts'
import {
  type BlobSidecar,
  splitSidecar,
  versionedHash,
} from '../../../engine/primitives/blob-sidecar.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { encodeRlp } from '../../../engine/primitives/rlp.ts'
import type { BlobTransaction } from '../../../engine/primitives/transaction.ts'
import { concatBytes } from '../../../engine/primitives/words.ts'
import { keyOf } from '../../../engine/txpool/types.ts'
import { OWN_CLIENT } from '../../../rpc/core/executor.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { createCallRunner } from '../../../rpc/dispatch/worker-call.ts'
import { proveSidecar } from '../../../rpc/methods/shared/sidecar.ts'
import { createProver } from '../../../workers/front/prover.ts'
import {
  blobTransaction,
  networkForm,
  type RealBlob,
  realBlob,
  sidecarOf,
  wrapped,
} from '../../fixtures/blobs.ts'
import { referenceEngine as engine } from '../../fixtures/engine.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { ETHEREUM } from '../../fixtures/op-block.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { localExecutor } from '../../fixtures/rpc.ts'
import {
  addressOfSender,
  at,
  CHAIN_ID,
  PlainHead,
  testPool,
  transfer,
} from '../../fixtures/txpool.ts'

const rules = (fork: 'shanghai' | 'prague' | 'osaka') => {
  const { cancun, prague, ...shanghai } = ETHEREUM
  const schedule = { shanghai, prague: ETHEREUM, osaka: { ...ETHEREUM, osaka: 0n } }[fork]
  const chain = { chainId: CHAIN_ID, schedule, elasticity: 2n, denominator: 8n }
  return rulesOf(chain)(1n, 1n)
}
function headAt(fork: Parameters<typeof rules>[0]): PlainHead {
  const head = new PlainHead()
  return Object.assign(head, { rules: rules(fork), extra: 0n })
}

let real: RealBlob
beforeAll(() => {
  real = realBlob()
})

const flipped = (bytes: Bytes, at = 10): Bytes =>
  bytes.map((byte, index) => (index === at ? byte ^ 1 : byte))
const error = (message: string, why = 'input') => ({
  error: { code: expect.any(String), why, message },
})

describe('the network form of a blob transaction', () => {
  test.each([0, 1] as const)('is split into envelope and sidecar, version %i', (version) => {
    const sidecar = sidecarOf(real, 2, version)
    const sent = blobTransaction(0, 0, sidecar.commitments)
    expect(splitSidecar(networkForm(sent, sidecar))).toEqual({ envelope: sent.raw, sidecar })
  })

  test('is left unchanged if it is a plain envelope or malformed', () => {
    for (const raw of [
      blobTransaction(0, 0, []).raw,
      transfer(0, 0).raw,
      Uint8Array.of(3),
      Uint8Array.of(3, 0xc0),
    ])
      expect(splitSidecar(raw)).toEqual({ envelope: raw, sidecar: undefined })
  })

  const EMPTY = encodeRlp([]).slice(0, 0)
  const envelope = () => blobTransaction(0, 0, []).raw
  const cases: [name: string, raw: () => Bytes, message: string][] = [
    [
      'a list too few',
      () => wrapped(envelope(), [[], []]),
      'rlp: too few elements for types.blobTxWithBlobsV0',
    ],
    [
      'nothing beside it',
      () => wrapped(envelope(), []),
      'rlp: too few elements for types.blobTxWithBlobsV0',
    ],
    [
      'a list too many',
      () => wrapped(envelope(), [Uint8Array.of(1), [], [], [], []]),
      'rlp: input list has too many elements for types.blobTxWithBlobsV1',
    ],
    [
      'an unknown version',
      () => wrapped(envelope(), [Uint8Array.of(2), [], [], []]),
      'unsupported blob tx version 2',
    ],
    [
      'an explicit version 0',
      () => wrapped(envelope(), [EMPTY, [], [], []]),
      'unsupported blob tx version 0',
    ],
    [
      'a short blob',
      () => wrapped(envelope(), [[real.blob.slice(1)], [], []]),
      'rlp: input string too short for kzg4844.Blob, decoding into (types.blobTxWithBlobsV0).Blobs[0]',
    ],
    [
      'a long proof',
      () => wrapped(envelope(), [[], [], [real.proof, new Uint8Array(49)]]),
      'rlp: input string too long for kzg4844.Proof, decoding into (types.blobTxWithBlobsV0).Proofs[1]',
    ],
    [
      'a string instead of a list',
      () => wrapped(envelope(), [[], real.commitment, []]),
      'rlp: expected input list for []kzg4844.Commitment, decoding into (types.blobTxWithBlobsV0).Commitments',
    ],
    [
      'a byte after it',
      () => concatBytes(wrapped(envelope(), [[], [], []]), Uint8Array.of(0)),
      'rlp: input contains more than one value',
    ],
  ]
  test.each(cases)('is refused with %s', (_, raw, message) => {
    expect(() => splitSidecar(raw())).toThrow(message)
  })
})

describe('the txpool', () => {
  const submitted = (raw: Bytes, head: PlainHead) => testPool().pool.submit(raw, at(head))
  const good = (version: 0 | 1, count = 1) => sidecarOf(real, count, version)

  test.each([
    ['prague', 0, 9],
    ['osaka', 1, 6],
  ] as const)(
    'accepts blob transactions once their proofs are checked: %s',
    (fork, version, max) => {
      const { pool, head, journal } = testPool()
      Object.assign(head, { rules: rules(fork), extra: 0n })
      // More than geth's megabyte is refused, so a block of Prague can take more blobs than one
      // transaction.
      const sidecar = good(version, Math.min(max, 7))
      const sent = blobTransaction(0, 0, sidecar.commitments)
      const raw = networkForm(sent, sidecar)
      expect(pool.submit(raw, at(head))).toEqual({ unproven: sidecar })
      expect([pool.get(sent.hash), journal]).toEqual([undefined, []])
      expect(pool.submit(raw, at(head), { isProven: true })).toEqual({ hash: sent.hash })
      expect([pool.get(sent.hash)?.raw, journal]).toEqual([sent.raw, [sent.raw]])
      expect(pool.submit(raw, at(head))).toEqual(error('already known'))
    },
  )

  type Bad = {
    readonly fork?: Parameters<typeof rules>[0]
    readonly sidecar?: BlobSidecar | undefined
    readonly sent?: BlobTransaction
  }
  const cases: [name: string, bad: () => Bad, message: string | RegExp, why?: string][] = [
    ['no sidecar', () => ({ sidecar: undefined }), 'missing sidecar in blob transaction'],
    ['before Cancun', () => ({ fork: 'shanghai' }), 'transaction type not supported'],
    [
      'blob proofs after Osaka',
      () => ({ sidecar: good(0) }),
      'Wrong sidecar format: unexpected sidecar version, want: 1, got: 0',
    ],
    [
      'cell proofs before Osaka',
      () => ({ fork: 'prague' }),
      'Wrong sidecar format: unexpected sidecar version, want: 0, got: 1',
    ],
    [
      'the hash of another commitment',
      () => ({ sent: blobTransaction(0, 0, [real.proof]) }),
      /^blob 0: computed hash 0x01[0-9a-f]{62} mismatches transaction one 0x01[0-9a-f]{62}$/,
    ],
    [
      'a hash of another version',
      () => {
        const hash = versionedHash(real.commitment)
        hash[0] = 2
        return { sent: blobTransaction(0, 0, [], { blobVersionedHashes: [hash] }) }
      },
      /^blob 0: computed hash 0x01[0-9a-f]{62} mismatches transaction one 0x02[0-9a-f]{62}$/,
    ],
    [
      'more hashes than commitments',
      () => ({ sent: blobTransaction(0, 0, [real.commitment, real.commitment]) }),
      'invalid number of 1 blob commitments compared to 2 blob hashes',
    ],
    [
      'too many blobs',
      () => ({
        sidecar: { ...good(1), commitments: Array(7).fill(real.commitment) },
        sent: blobTransaction(0, 0, Array(7).fill(real.commitment)),
      }),
      'transaction blob limit exceeded: blob count 7, limit 6',
    ],
    [
      'a proof too few',
      () => ({ sidecar: { ...good(1), proofs: real.cellProofs.slice(1) } }),
      'Wrong sidecar format: invalid number of 127 blob proofs expected 128',
    ],
    [
      'a blob too many',
      () => ({ sidecar: { ...good(1), blobs: [real.blob, real.blob] } }),
      'invalid number of 2 blobs compared to 1 commitments',
    ],
    [
      'no blobs at all',
      () => ({ sidecar: good(1, 0), sent: blobTransaction(0, 0, []) }),
      'blobless blob transaction',
    ],
    [
      'no fee for its blobs',
      () => ({ sent: blobTransaction(0, 0, [real.commitment], { maxFeePerBlobGas: 0n }) }),
      'transaction gas price below minimum: blob fee cap 0, minimum needed 1',
    ],
    [
      'more gas than any transaction may have',
      () => ({ sent: blobTransaction(0, 0, [real.commitment], { gasLimit: 2n ** 24n + 1n }) }),
      'transaction gas limit too high (cap: 16777216, tx: 16777217)',
    ],
    // The cost is 21,000 gas at the fee cap, value 1, and 131,072 of blob gas at 1.
    [
      'a balance without the blob fee',
      () => ({ sent: blobTransaction(2, 0, [real.commitment]) }),
      'insufficient funds for gas * price + value: have 21131072 want 21131073',
      'rejected',
    ],
  ]
  test.each(cases)('refuses %s', (_, bad, message, why = 'input') => {
    const { fork = 'osaka', sent = blobTransaction(0, 0, [real.commitment]), ...rest } = bad()
    const sidecar = 'sidecar' in rest ? rest.sidecar : good(1)
    const head = headAt(fork)
    head.balances.set(keyOf(addressOfSender(2)), 21_131_072n)
    const raw = sidecar === undefined ? sent.raw : networkForm(sent, sidecar)
    expect(submitted(raw, head)).toEqual({
      error: {
        code: expect.any(String),
        why,
        message: typeof message === 'string' ? message : expect.stringMatching(message),
      },
    })
  })

  test('refuses blob transactions on OP chains, and oversized ones', () => {
    const sidecar = good(1)
    const raw = networkForm(blobTransaction(0, 0, sidecar.commitments), sidecar)
    expect(submitted(raw, new PlainHead())).toEqual(error('transaction type not supported'))
    const many = good(0, 8)
    const large = networkForm(blobTransaction(0, 0, many.commitments), many)
    expect(submitted(large, headAt('prague'))).toEqual(
      error(`oversized data: transaction size ${large.length}, limit 1048576`),
    )
    const input = new Uint8Array(131_072)
    const calldata = blobTransaction(0, 0, sidecar.commitments, { input, gasLimit: 10_000_000n })
    expect(submitted(networkForm(calldata, sidecar), headAt('osaka'))).toEqual(
      error(`oversized data: transaction size ${calldata.raw.length}, limit 131072`),
    )
  })

  describe('beside other transactions of the sender', () => {
    const pooled = () => {
      const { pool } = testPool({ blobsPerSender: 2 })
      const head = headAt('osaka')
      const sidecar = good(1)
      const send = (sent: BlobTransaction) =>
        pool.submit(networkForm(sent, sidecar), at(head), { isProven: true })
      const fees = (gas: bigint, tip: bigint, blob: bigint, nonce = 0) =>
        blobTransaction(0, nonce, sidecar.commitments, {
          maxFeePerGas: gas,
          maxPriorityFeePerGas: tip,
          maxFeePerBlobGas: blob,
        })
      return { pool, head, send, fees }
    }

    test.each<[name: string, fees: [bigint, bigint, bigint], message: string | undefined]>([
      ['doubles all fees', [200n, 20n, 2n], undefined],
      ['the same fee', [100n, 20n, 2n], 'gas fee cap 100 <= 100 queued'],
      ['the same tip', [200n, 10n, 2n], 'gas tip cap 10 <= 10 queued'],
      ['the same blob fee', [200n, 20n, 1n], 'blob gas fee cap 1 <= 1 queued'],
      [
        'less than twice',
        [199n, 20n, 2n],
        'gas fee cap 199 < 100 queued + 100% replacement penalty',
      ],
    ])('judges a replacement that has %s', (_, [gas, tip, blob], message) => {
      const { send, fees } = pooled()
      send(fees(100n, 10n, 1n))
      const next = fees(gas, tip, blob)
      expect(send(next)).toEqual(
        message === undefined
          ? { hash: next.hash }
          : error(`replacement transaction underpriced: new tx ${message}`),
      )
    })

    test('accepts either blob transactions or others of a sender, never both', () => {
      const { pool, head, send, fees } = pooled()
      send(fees(100n, 10n, 1n))
      expect(pool.submit(transfer(0, 1).raw, at(head))).toEqual(error('address already reserved'))
      expect(pool.submit(transfer(1, 0).raw, at(head))).toHaveProperty('hash')
      const other = blobTransaction(1, 1, [real.commitment])
      expect(send(other)).toEqual(error('address already reserved'))
    })

    test('limits the blob transactions of a sender', () => {
      const { send, fees } = pooled()
      for (const nonce of [0, 1]) expect(send(fees(100n, 10n, 1n, nonce))).toHaveProperty('hash')
      expect(send(fees(100n, 10n, 1n, 2))).toEqual(error('account limit exceeded: pooled 2 txs'))
    })

    test('restores blob transactions from the journal, without their sidecars', () => {
      const { pool, head, fees } = pooled()
      const sent = fees(100n, 10n, 1n)
      expect(pool.restore(sent.raw, head)).toBe(true)
      expect(pool.get(sent.hash)?.raw).toEqual(sent.raw)
    })
  })
})

describe('the proofs of a sidecar', () => {
  const proverWithin = (ms: number) => {
    const methods = new Map([[proveSidecar.name, proveSidecar]])
    const bugs: unknown[] = []
    const onBug = (bug: unknown) => void bugs.push(bug)
    const parts = {
      reader: memoryChain(),
      chain: CHAIN,
      engine,
      limits: DEFAULT_LIMITS,
      methods,
      now: () => 0,
      onBug,
    }
    const executor = localExecutor(() => createCallRunner(parts), ms, [])
    const limits = { ...DEFAULT_LIMITS, sidecarMs: ms }
    return createProver({ executor, limits, now: () => performance.now() })
  }
  const prove = proverWithin(600_000)
  const otherPoint = () => real.cellProofs[0]!

  const cases: [name: string, sidecar: () => BlobSidecar, message: string | RegExp | undefined][] =
    [
      ['one blob', () => sidecarOf(real, 1, 0), undefined],
      ['two blobs', () => sidecarOf(real, 2, 0), undefined],
      ['cell proofs', () => sidecarOf(real, 2, 1), undefined],
      [
        'a changed blob',
        () => ({ ...sidecarOf(real, 1, 0), blobs: [flipped(real.blob)] }),
        'invalid proof',
      ],
      [
        'a changed blob with cell proofs',
        () => ({ ...sidecarOf(real, 1, 1), blobs: [flipped(real.blob)] }),
        'invalid proof',
      ],
      [
        'another commitment',
        () => ({ ...sidecarOf(real, 1, 0), commitments: [otherPoint()] }),
        'invalid proof',
      ],
      [
        'another commitment with cell proofs',
        () => ({ ...sidecarOf(real, 1, 1), commitments: [otherPoint()] }),
        'invalid proof',
      ],
      [
        'another proof',
        () => ({ ...sidecarOf(real, 1, 0), proofs: [otherPoint()] }),
        'invalid proof',
      ],
      [
        'exchanged proofs of two cells',
        () => {
          const [first, second, ...others] = real.cellProofs
          return { ...sidecarOf(real, 1, 1), proofs: [second!, first!, ...others] }
        },
        'invalid proof',
      ],
      [
        'a changed second blob',
        () => ({ ...sidecarOf(real, 2, 0), blobs: [real.blob, flipped(real.blob)] }),
        'invalid proof',
      ],
      [
        'proofs that are not curve points',
        () => ({ ...sidecarOf(real, 1, 0), proofs: [flipped(real.proof, 0)] }),
        /./,
      ],
      [
        'blobs that are not field elements',
        () => ({
          ...sidecarOf(real, 1, 1),
          blobs: [real.blob.map((byte, at) => (at < 32 ? 0xff : byte))],
        }),
        /field element/,
      ],
    ]
  test.each(cases)('are checked: %s', async (_, sidecar, fault) => {
    const error = await prove(sidecar(), OWN_CLIENT)
    if (fault === undefined) expect(error).toBeUndefined()
    else if (typeof fault === 'string')
      expect(error).toEqual({ code: -32000, message: `KZG verification error: ${fault}` })
    else
      expect(error).toEqual({
        code: -32000,
        message: expect.stringMatching(new RegExp(`^KZG verification error: .*${fault.source}`)),
      })
  })

  test('are refused after the timeout of the check', async () => {
    const late = await proverWithin(-1)(sidecarOf(real, 1, 0), OWN_CLIENT)
    expect(late).toMatchObject({ code: -32002 })
  })
})

test('the versioned hash of a commitment is the one of EIP-4844', () => {
  // EIP-4844: the version replaces the first byte of the sha256.
  expect(bytesToHex(versionedHash(new Uint8Array(48)))).toBe(
    '0x01b0761f87b081d5cf10757ccc89f12be355c70e2e29df288b65b30710dcbcd1',
  )
})

/** Methods of a development chain that edit its state. A block carries each edit. */
import {
  type AccountEdit,
  encodeEdits,
  MAX_EDIT_BYTES,
} from '../../../engine/execution/transaction/edits.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { bigintToBytes, bytesToBigint } from '../../../engine/primitives/words.ts'
import { invalidParameter } from '../../core/errors.ts'
import { address, bytes } from '../../json/codecs.ts'
import { booleanResult } from '../../json/results.ts'
import { type Codec, refine, text } from '../../json/schema.ts'
import { frontMethod, type Method, param } from '../../method/method.ts'
import { type StateOverrideValue, stateOverride } from '../shared/overrides.ts'
import { slotKey } from '../shared/slot-key.ts'
import { CONTROL, headResult, headText, named, natural, type SendControl, wei } from './controls.ts'

/** Limit of every chain (EIP-170). */
const MAX_CODE_BYTES = 24_576
const MAX_NONCE = 2n ** 64n - 2n

/** Hex of at most 32 bytes. */
const word: Codec<Bytes> = refine(
  text('hex encoded word', 66),
  (wire) => slotKey(wire).key,
  bytesToHex,
)
/** A number in anvil's forms: text without 0x is decimal. */
const slot: Codec<Bytes> = refine(
  wei,
  (value) => bigintToBytes(value, 32),
  (key) => bytesToBigint(key),
)
const code: Codec<Bytes> = refine(
  bytes,
  (value) => {
    checkCode(1, value)
    return value
  },
  (value) => value,
)

export function editControls(send: SendControl): readonly Method[] {
  const edit = async (edits: readonly AccountEdit[]): Promise<true> => {
    await send({ type: 'edit', edits })
    return true
  }
  return [
    frontMethod({
      ...CONTROL,
      name: 'dev_setState',
      summary:
        'Sets balance, nonce, code and slots of accounts, and makes a block with only these edits.',
      params: [param('State', stateOverride)],
      result: headResult,
      async handler(_context, state) {
        const edits = editsOf(state)
        const { length } = encodeEdits(edits)
        if (length > MAX_EDIT_BYTES)
          throw invalidParameter(
            0,
            `expected at most ${MAX_EDIT_BYTES} bytes of edits, got ${length}`,
          )
        return headText(await send({ type: 'edit', edits }))
      },
    }),
    ...named(['anvil_setBalance', 'hardhat_setBalance'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'Sets the balance of an account, and makes a block with only this edit.',
        params: [param('Address', address), param('Wei', wei)],
        result: booleanResult('Done'),
        handler: (_context, who, balance) => edit([{ address: who, balance }]),
      }),
    ),
    ...named(['anvil_setNonce', 'hardhat_setNonce'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'Sets the nonce of an account, and makes a block with only this edit.',
        params: [param('Address', address), param('Nonce', natural)],
        result: booleanResult('Done'),
        handler(_context, who, nonce) {
          if (nonce > MAX_NONCE)
            throw invalidParameter(1, `expected at most ${MAX_NONCE}, got ${nonce}`)
          return edit([{ address: who, nonce }])
        },
      }),
    ),
    ...named(['anvil_setCode', 'hardhat_setCode'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'Sets the code of an account, and makes a block with only this edit.',
        params: [param('Address', address), param('Code', code)],
        result: booleanResult('Done'),
        handler: (_context, who, code) => edit([{ address: who, code }]),
      }),
    ),
    ...named(['anvil_setStorageAt', 'hardhat_setStorageAt'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'Sets a slot of an account, and makes a block with only this edit.',
        params: [param('Address', address), param('Slot', slot), param('Value', word)],
        result: booleanResult('Done'),
        handler: (_context, who, key, value) => edit([{ address: who, slots: [[key, value]] }]),
      }),
    ),
  ]
}

function editsOf(state: StateOverrideValue): readonly AccountEdit[] {
  return state.map(([who, { balance, nonce, code, stateDiff, ...others }]) => {
    for (const [field, value] of Object.entries(others))
      if (value !== undefined)
        throw invalidParameter(0, `cannot set ${field}; expected balance, nonce, code or stateDiff`)
    if (code !== undefined) checkCode(0, code)
    return { address: who, balance, nonce, code, slots: stateDiff }
  })
}

function checkCode(argument: number, { length }: Bytes): void {
  if (length > MAX_CODE_BYTES)
    throw invalidParameter(
      argument,
      `expected at most ${MAX_CODE_BYTES} bytes of code, got ${length}`,
    )
}

/** What only a development chain has: its state is as somebody says, from a block on that says so. */
import {
  type AccountEdit,
  encodeEdits,
  MAX_EDIT_BYTES,
} from '../../../engine/execution/transaction/edits.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { bigintToBytes, bytesToBigint } from '../../../engine/primitives/words.ts'
import { address, bytes } from '../../json/codecs.ts'
import { booleanResult } from '../../json/results.ts'
import { type Codec, refine, text } from '../../json/schema.ts'
import { frontMethod, type Method, param } from '../../method/method.ts'
import { invalidParameter } from '../../seam/errors.ts'
import { type StateOverrideValue, stateOverride } from '../shared/overrides.ts'
import { slotKey } from '../shared/slot-key.ts'
import { CONTROL, headResult, headText, named, natural, type SendControl, wei } from './controls.ts'

/** As every chain has it (EIP-170). */
const MAX_CODE_BYTES = 24_576
const MAX_NONCE = 2n ** 64n - 2n

/** Hex of at most 32 bytes. */
const word: Codec<Bytes> = refine(
  text('hex encoded word', 66),
  (wire) => slotKey(wire).key,
  bytesToHex,
)
/** A number, as anvil takes it: decimal text is no hex. */
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
        'Accounts have this balance, nonce, code and these slots from a block of its own on.',
      params: [param('State', stateOverride)],
      result: headResult,
      async handler(_context, state) {
        const edits = editsOf(state)
        const { length } = encodeEdits(edits)
        if (length > MAX_EDIT_BYTES)
          throw invalidParameter(0, `${length} bytes of edits, at most ${MAX_EDIT_BYTES} at a time`)
        return headText(await send({ type: 'edit', edits }))
      },
    }),
    ...named(['anvil_setBalance', 'hardhat_setBalance'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'The account has this balance from a block of its own on.',
        params: [param('Address', address), param('Wei', wei)],
        result: booleanResult('Done'),
        handler: (_context, who, balance) => edit([{ address: who, balance }]),
      }),
    ),
    ...named(['anvil_setNonce', 'hardhat_setNonce'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'The account has this nonce from a block of its own on.',
        params: [param('Address', address), param('Nonce', natural)],
        result: booleanResult('Done'),
        handler(_context, who, nonce) {
          if (nonce > MAX_NONCE) throw invalidParameter(1, `a nonce is at most ${MAX_NONCE}`)
          return edit([{ address: who, nonce }])
        },
      }),
    ),
    ...named(['anvil_setCode', 'hardhat_setCode'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'The account has this code from a block of its own on.',
        params: [param('Address', address), param('Code', code)],
        result: booleanResult('Done'),
        handler: (_context, who, code) => edit([{ address: who, code }]),
      }),
    ),
    ...named(['anvil_setStorageAt', 'hardhat_setStorageAt'], (name) =>
      frontMethod({
        ...CONTROL,
        name,
        summary: 'The slot has this value from a block of its own on.',
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
        throw invalidParameter(0, `${field} cannot be set: balance, nonce, code and stateDiff can`)
    if (code !== undefined) checkCode(0, code)
    return { address: who, balance, nonce, code, slots: stateDiff }
  })
}

function checkCode(argument: number, { length }: Bytes): void {
  if (length > MAX_CODE_BYTES)
    throw invalidParameter(argument, `code of ${length} bytes, at most ${MAX_CODE_BYTES}`)
}

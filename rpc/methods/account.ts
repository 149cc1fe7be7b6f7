/** Methods for accounts whose keys the node has. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { UnsignedTransaction } from '../../engine/primitives/transaction-codec.ts'
import { bigintToBytes, concatBytes, ZERO_20 } from '../../engine/primitives/words.ts'
import { failed, unknownAccount } from '../core/errors.ts'
import { address, bytes, hexText, transactionCall } from '../json/codecs.ts'
import { hashesText, pooledText } from '../json/json.ts'
import { bytesResult, hashResult, textResult } from '../json/results.ts'
import { type FrontContext, frontMethod, param } from '../method/method.ts'
import {
  type CallFields,
  checkFields,
  fillTransaction,
  ownSender,
  signWith,
  turnKey,
  unsignedForm,
} from './shared/fill.ts'
import { decodeMessageDigest, digestMessage, messageDigest } from './shared/message-digest.ts'
import { submit } from './shared/submission.ts'
import { estimated, sendUnsigned } from './unsigned.ts'

const LISTED = ['standard', 'flashblocks'] as const

export const eth_accounts = frontMethod({
  name: 'eth_accounts',
  summary: 'Addresses whose keys the node has.',
  params: [],
  result: textResult('Accounts', { type: 'array', items: address.schema }),
  handler: ({ services }) => hashesText(services.accounts.addresses()),
})

export const eth_sign = frontMethod({
  name: 'eth_sign',
  summary:
    'Signs a message with the Ethereum prefix, so that the signature is never valid for a transaction.',
  listed: LISTED,
  params: [param('Address', address), param('Message', bytes)],
  result: bytesResult('Signature'),
  ofLong: {
    first: digestMessage,
    finish(context, text) {
      const { address, digest } = decodeMessageDigest(text)
      return hexText(signed(context, address, digest))
    },
  },
  handler: (context, who, message) => signed(context, who, messageDigest(message)),
})

function signed({ services }: FrontContext, who: Bytes, digest: Bytes): Bytes {
  const signature = services.accounts.sign(who, digest)
  if (signature === undefined) throw unknownAccount()
  const { r, s, yParity } = signature
  return concatBytes(bigintToBytes(r, 32), bigintToBytes(s, 32), Uint8Array.of(27 + yParity))
}

export const eth_sendTransaction = frontMethod({
  name: 'eth_sendTransaction',
  summary: 'Completes, signs and sends a transaction of an account of the node.',
  listed: LISTED,
  hasEffect: true,
  weight: 12,
  params: [param('Transaction', transactionCall)],
  result: hashResult('Transaction hash'),
  handler(context, call) {
    const { services } = context
    const { impersonated } = services.accounts
    const { from } = call
    if (from !== undefined && impersonated?.has(from) === true)
      return sendUnsigned(context, call, { from, send: impersonated.send })
    const sender = ownSender(call, services.accounts)
    checkFields(call, context)
    // Two concurrent calls would take the same nonce.
    return services.turns(turnKey(sender), async () => {
      const unsigned = await filled(context, call, sender)
      await context.turn()
      return submit(context, signWith(services.accounts, sender, unsigned).raw)
    })
  },
})

export const eth_signTransaction = frontMethod({
  name: 'eth_signTransaction',
  summary: 'Signs a transaction of an account of the node without sending it.',
  params: [param('Transaction', transactionCall)],
  result: textResult('Signed transaction', { type: 'object' }),
  async handler(context, call) {
    if (call.gas === undefined) throw failed('gas not specified')
    const hasFees = call.maxFeePerGas !== undefined && call.maxPriorityFeePerGas !== undefined
    if (call.gasPrice === undefined && !hasFees)
      throw failed('missing gasPrice or maxFeePerGas/maxPriorityFeePerGas')
    if (call.nonce === undefined) throw failed('nonce not specified')
    const { services } = context
    const sender = ownSender(call, services.accounts)
    checkFields(call, context)
    const unsigned = await filled(context, call, sender)
    await context.turn()
    const signed = signWith(services.accounts, sender, unsigned)
    return `{"raw":${hexText(signed.raw)},"tx":${pooledText(signed)}}`
  },
})

export const eth_fillTransaction = frontMethod({
  name: 'eth_fillTransaction',
  summary: 'Fills in the missing fields of a transaction, so that the caller can sign it.',
  params: [param('Transaction', transactionCall)],
  result: textResult('Unsigned transaction', { type: 'object' }),
  async handler(context, call) {
    checkFields(call, context)
    const sender = call.from ?? ZERO_20
    const unsigned = unsignedForm(await filled(context, call, sender), sender)
    return `{"raw":${hexText(unsigned.raw)},"tx":${pooledText(unsigned)}}`
  },
})

function filled(
  context: FrontContext,
  call: CallFields,
  sender: Bytes,
): Promise<UnsignedTransaction> {
  return fillTransaction(context, call, {
    sender,
    estimate: () => estimated(context, call, sender),
  })
}

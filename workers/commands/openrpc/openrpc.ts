/** Prints the declared methods as an OpenRPC document (1.3.2) or as a page. */
import type { Endpoint } from '../../../engine/chain/types.ts'
import type { Method, MethodLimits, Methods } from '../../../rpc/method/method.ts'
import { openrpc } from '../../../rpc/method/openrpc.ts'
import { methodsOf } from '../../../rpc/methods/index.ts'
import { version } from '../../config/config.ts'

export type Wanted = {
  readonly endpoint: Endpoint
  readonly methods: 'all' | 'standard'
  readonly form: 'json' | 'markdown'
  /** Limits of the node that the document describes. */
  readonly limits: MethodLimits
}

export function openrpcText({ endpoint, methods: set, form, limits }: Wanted): string {
  const methods = methodsOf(endpoint, set)
  if (form === 'markdown') return page(methods, methodsOf('standard', set))
  const document = openrpc(methods, { version: version(), limits, mode: undefined })
  return `${JSON.stringify(document, undefined, 2)}\n`
}

const INTRODUCTION = `# Which methods does the node have?

This table lists the methods of \`/flashblocks\`. \`npm run -s flashnode -- openrpc --form markdown\` prints it from the declarations that decode the
parameters. Without \`--form\`, the command prints the OpenRPC document that \`rpc.discover\` returns. [The page about tests](../docs/testing.md) lists
the methods that only \`dev\` has.

- A parameter in brackets is optional.
- *Cost* is in points of the rate limit, and applies with \`--limit-by cost\`.
- A method without a mark is also on \`/\`. ◆ marks a method that only \`/flashblocks\` has.
- \`s\` marks a method of X Layer's service. With \`--methods standard\`, the node has only these methods.

| method | parameters | result | cost | what it does |
|---|---|---|---|---|
`

function page(methods: Methods, standard: Methods): string {
  const rows = [...methods.values()].map((method) => {
    const badges = `${standard.has(method.name) ? '' : ' ◆'}${method.listed.includes('flashblocks') ? ' `s`' : ''}`
    const { name, summary, weight, result } = method
    const columns = [
      `\`${name}\`${badges}`,
      parametersOf(method),
      result.name,
      `${weight}`,
      summary,
    ]
    return `| ${columns.map(escaped).join(' | ')} |`
  })
  return `${INTRODUCTION}${rows.join('\n')}\n`
}

const parametersOf = ({ params }: Method): string =>
  params.map(({ name, required }) => (required ? name : `[${name}]`)).join(', ')

const escaped = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

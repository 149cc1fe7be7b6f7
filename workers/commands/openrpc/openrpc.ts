/** The OpenRPC document (1.3.2) of what the code declares, or a page of the same. */
import type { Endpoint } from '../../../engine/chain/types.ts'
import type { Method, MethodLimits, Methods } from '../../../rpc/method/method.ts'
import { openrpc } from '../../../rpc/method/openrpc.ts'
import { methodsOf } from '../../../rpc/methods/index.ts'
import { version } from '../../config/config.ts'

export type Wanted = {
  readonly endpoint: Endpoint
  readonly methods: 'all' | 'standard'
  readonly form: 'json' | 'markdown'
  /** Of the node that it shall be the document of. */
  readonly limits: MethodLimits
}

export function openrpcText({ endpoint, methods: set, form, limits }: Wanted): string {
  const methods = methodsOf(endpoint, set)
  if (form === 'markdown') return page(methods, methodsOf('standard', set))
  const document = openrpc(methods, { version: version(), limits, mode: undefined })
  return `${JSON.stringify(document, undefined, 2)}\n`
}

const INTRODUCTION = `# Methods

Of \`/flashblocks\`, from the declarations that decode their parameters (\`npm run -s flashnode -- openrpc --form markdown\`; without \`--form\` it is the
OpenRPC document that \`rpc.discover\` answers). A parameter in brackets may be left out. *Cost* counts where \`--limit-by cost\` says so. A
method without a mark is on \`/\` too; ◆ is on \`/flashblocks\` alone; \`s\` is on the list of X Layer's service, to which \`--methods standard\` keeps the node.
What tests of applications call on \`dev\` is said [with the tests](../docs/testing.md).

| method | parameters | result | cost | what it does |
|---|---|---|---|---|
`

/** A row each, by name. */
function page(methods: Methods, standard: Methods): string {
  const rows = [...methods.values()].map((method) => {
    const marks = `${standard.has(method.name) ? '' : ' ◆'}${method.listed.includes('flashblocks') ? ' `s`' : ''}`
    const { name, summary, weight, result } = method
    const cells = [`\`${name}\`${marks}`, parametersOf(method), result.name, `${weight}`, summary]
    return `| ${cells.map(cell).join(' | ')} |`
  })
  return `${INTRODUCTION}${rows.join('\n')}\n`
}

const parametersOf = ({ params }: Method): string =>
  params.map(({ name, required }) => (required ? name : `[${name}]`)).join(', ')

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

/** The OpenRPC document of this node, from the same declarations that decode its parameters. */
import { schemaFor } from '../json/schema.ts'
import type { Limits } from '../seam/limits.ts'
import type { StateMode } from '../seam/ports.ts'
import type { DescribedMethods } from './services.ts'

export function openrpc(
  methods: DescribedMethods,
  node: {
    readonly version: string
    readonly limits: Limits
    /** undefined: nothing is said of it. */
    readonly mode: StateMode | undefined
  },
): Readonly<Record<string, unknown>> {
  return {
    openrpc: '1.3.2',
    info: {
      title: 'flashnode',
      version: node.version,
      ...(node.mode === undefined ? {} : { 'x-state': node.mode }),
    },
    methods: [...methods.values()].map(({ name, summary, params, result }) => ({
      name,
      summary,
      paramStructure: 'by-position',
      params: params.map((one) => ({
        name: one.name,
        required: one.required,
        schema: schemaFor(one.codec.schema, node.limits),
      })),
      result,
    })),
  }
}

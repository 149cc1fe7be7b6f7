/** Builds the node's OpenRPC document from the declarations that also decode the parameters. */

import type { Limits } from '../core/limits.ts'
import type { StateMode } from '../core/ports.ts'
import { schemaFor } from '../json/schema.ts'
import type { DescribedMethods } from './services.ts'

export function openrpc(
  methods: DescribedMethods,
  node: {
    readonly version: string
    readonly limits: Limits
    /** undefined leaves the mode out. */
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

/** The OpenRPC document of this node, from the same declarations that decode its parameters. */
import type { Methods } from './method.ts'

export function openrpc(methods: Methods, version: string): Readonly<Record<string, unknown>> {
  return {
    openrpc: '1.3.2',
    info: { title: 'flashnode', version },
    methods: [...methods.values()].map(({ name, summary, params, result }) => ({
      name,
      summary,
      paramStructure: 'by-position',
      params: params.map((one) => ({
        name: one.name,
        required: one.required,
        schema: one.codec.schema,
      })),
      result,
    })),
  }
}

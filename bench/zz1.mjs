import { createRequire, flushCompileCache } from 'node:module'

const how = process.argv[2]
const c0 = process.cpuUsage(),
  t0 = performance.now()
if (how === 'esm') {
  await import('@ethereumjs/evm')
  await import('@ethereumjs/common')
  await import('@ethereumjs/util')
} else if (how === 'cjs') {
  const r = createRequire(import.meta.url)
  r('@ethereumjs/evm')
  r('@ethereumjs/common')
  r('@ethereumjs/util')
}
const c = process.cpuUsage(c0)
console.log(
  how,
  Math.round(performance.now() - t0),
  'ms cpu',
  Math.round((c.user + c.system) / 1000),
)
flushCompileCache()

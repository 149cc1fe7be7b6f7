/** What is used of WebAssembly: TypeScript has its types with those of a browser only. */
declare namespace WebAssembly {
  class Module {
    constructor(binary: Uint8Array)
  }
  class Instance {
    readonly exports: unknown
    constructor(module: Module)
  }
}

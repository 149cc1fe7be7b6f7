/** What is used of WebAssembly: TypeScript has its types with those of a browser only. */
declare namespace WebAssembly {
  class Module {
    constructor(binary: Uint8Array)
    /** Contents of the sections of that name. */
    static customSections(module: Module, name: string): ArrayBuffer[]
  }
  class Instance {
    readonly exports: unknown
    constructor(
      module: Module,
      imports?: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
    )
  }
  /** Growth detaches the buffer: whoever holds a view makes a new one. */
  class Memory {
    readonly buffer: ArrayBuffer
    /** In pages of 64 kB. Returns the former size; a RangeError beyond the maximum. */
    grow(pages: number): number
  }
  class RuntimeError extends Error {}
}

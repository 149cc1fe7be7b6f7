/** The used part of WebAssembly's types, which TypeScript has only with those of a browser. */
declare namespace WebAssembly {
  class Module {
    constructor(binary: Uint8Array)
    /** Returns the contents of the sections with this name. */
    static customSections(module: Module, name: string): ArrayBuffer[]
    static exports(module: Module): { readonly name: string }[]
    static imports(module: Module): { readonly name: string }[]
  }
  class Instance {
    readonly exports: unknown
    constructor(
      module: Module,
      imports?: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
    )
  }
  /** Growth detaches the buffer, so that every view has to be made again. */
  class Memory {
    /** Sizes are in pages of 64 kB. */
    constructor(size: { readonly initial: number; readonly maximum?: number })
    readonly buffer: ArrayBuffer
    /**
     * Grows by pages of 64 kB and returns the former size. Beyond the maximum, it throws a
     * RangeError.
     */
    grow(pages: number): number
  }
  class RuntimeError extends Error {}
}

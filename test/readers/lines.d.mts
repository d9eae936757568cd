export declare const lines: ReadonlyArray<readonly [name: string, text: string, ours: "same" | "refused" | "named"]>

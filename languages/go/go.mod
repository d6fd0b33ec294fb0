// SPDX-License-Identifier: Apache-2.0
module rubato

go 1.19
